"""Replaces sbatch on a host of plain processes: it translates a machine's paths into the host's folders.

It reads these folders from PLACES, changes the arguments and the batch script, and then runs sbatch.
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
    places_file = Path(os.environ["SLIPWAY_NODE_ROOT"], PLACES)
    places = json.loads(places_file.read_text(encoding="utf-8"))
    others = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != places_file.parent]
    program = shutil.which("sbatch", path=os.pathsep.join(others))
    if program is None:
        print("sbatch: command not found", file=sys.stderr)
        return 127
    with tempfile.TemporaryDirectory() as folder:
        words = list(_words(sys.argv[1:], places, Path(folder)))
        return subprocess.run([program, *words], check=False).returncode


def said(text: str, places: Mapping[str, str]) -> str:
    """Return the text with a machine's absolute paths replaced by the host's folders."""
    paths = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
    return re.sub(rf"(?<![\w/.~-])(?:{paths})(?![\w.-])", lambda found: places[found[0]], text)


def _words(given: Sequence[str], places: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield the arguments; the first one that is a script becomes the path of a changed copy."""
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
    """Return the text of a batch script; "" for any other file, which sbatch would refuse."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return text if text.startswith("#!") else ""
