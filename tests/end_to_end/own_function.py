"""Runs a user's functions on two nodes of any cluster, and checks what ranks return and raise."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from tests.end_to_end.conftest import ROOT, Shell

_PAGE = ROOT / "docs" / "python.md"
_EXAMPLE = re.compile(r"prints the mean of two ranks:\n\n```\n(.*?)```", re.DOTALL)
_SCRIPT = Path(__file__).parent / "apps" / "own_function.py"


def call_functions(shell: Shell, cluster: str, folder: Path) -> None:
    """Check that ranks compute together and return tensors, and an exception names its rank and lines."""
    shutil.copy(_SCRIPT, folder / "sweep.py")
    here = replace(shell, folder=folder)
    both = [[0, [30.0, 60.0]], [1, [30.0, 60.0]]]
    assert here.data("python", "sweep.py", cluster, "share") == [both[0], *both]
    rank, lines = here.data("python", "sweep.py", cluster, "fail")
    assert rank == 1
    assert lines[0].endswith(" failed on rank 1: ValueError: rank 1 has had enough")
    assert lines[-1] == "error: ValueError: rank 1 has had enough"
    assert any('raise ValueError(f"rank {rank} has had enough")' in line for line in lines)


def run_the_example_of_the_page(shell: Shell, folder: Path) -> None:
    """Check that the script of docs/python.md prints what its two ranks computed."""
    (example,) = _EXAMPLE.findall(_PAGE.read_text(encoding="utf-8"))
    (folder / "sweep.py").write_text(example, encoding="utf-8")
    said = replace(shell, folder=folder).must("python", "sweep.py")
    assert re.fullmatch(r"mean-[0-9a-f]{12} tensor\(\[ 5\., 10\.\]\)\n", said)
