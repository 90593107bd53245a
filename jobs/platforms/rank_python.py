"""What the ranks of a job run in: the node's own Python, or one that the machine image brings.

A vendor of accelerators builds its PyTorch for one Python, which need not be ours. An image for such machines
has a folder with an environment for it (bin/python), the variables that the vendor's libraries want
(`variables`, a NAME=VALUE a line), and what it holds (`version`), the same on all nodes of a job.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "opt/slipway/training"
_OWN = "the node's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPython:
    program: str
    version: str
    variables: Mapping[str, str]


def rank_python(root: Path) -> RankPython:
    folder = root / FOLDER
    program = folder / "bin" / "python"
    if not program.exists():
        return RankPython(program=sys.executable, version=_OWN, variables={})
    lines = (folder / "variables").read_text(encoding="utf-8").splitlines()
    return RankPython(
        program=str(program),
        version=(folder / "version").read_text(encoding="utf-8").strip(),
        variables=dict(line.split("=", 1) for line in lines if "=" in line),
    )
