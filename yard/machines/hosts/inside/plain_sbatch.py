"""Stands before sbatch on a host that is plain processes: a machine's paths become the host's folders.

It reads which in PLACES, changes the words and the batch script, and leaves the rest to sbatch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PLACES = "run/yard/slurm/places.json"  # below the host's folder


def main() -> int:
    own = Path(os.environ["SLIPWAY_NODE_ROOT"], PLACES)
    places = json.loads(own.read_text(encoding="utf-8"))
    others = [each for each in os.environ["PATH"].split(os.pathsep) if Path(each) != own.parent]
    program = shutil.which("sbatch", path=os.pathsep.join(others))
    if program is None:
        print("sbatch: command not found", file=sys.stderr)
        return 127
    with tempfile.TemporaryDirectory() as folder:
        words = list(_words(sys.argv[1:], places, Path(folder)))
        return subprocess.run([program, *words], check=False).returncode


def said(text: str, places: Mapping[str, str]) -> str:
    """Return a text with the host's folders in the place of absolute paths of a machine."""
    paths = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
    return re.sub(rf"(?<![\w/.~-])(?:{paths})(?![\w.-])", lambda found: places[found[0]], text)


def _words(given: Sequence[str], places: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield the words; the first that is a script, which sbatch reads before it ends, becomes a copy."""
    has_script = False
    for word in (said(word, places) for word in given):
        if has_script or not (text := _script(Path(word))):
            yield word
            continue
        has_script = True
        copy = folder / Path(word).name
        copy.write_text(said(text, places), encoding="utf-8")
        yield str(copy)


def _script(path: Path) -> str:
    """Return what a batch script says; "" for all else, which sbatch would refuse as one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return text if text.startswith("#!") else ""
