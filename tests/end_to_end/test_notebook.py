"""All cells of the notebook in docs/examples run, and show what its reader sees."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import ROOT, WITHOUT_GATE
from tests.yard.services.sagemaker.training_site import require_training

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NOTEBOOK = ROOT / "docs" / "examples" / "first_training.ipynb"
LOSS = re.compile(r"The loss goes from ([0-9.]+) to ([0-9.]+) in 60 steps")


def code(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def kinds(cell: dict[str, Any]) -> list[object]:
    return [sorted(output.get("data", ("printed",))) for output in cell["outputs"]]


def test_every_cell_of_the_notebook_runs_and_shows_what_is_stored(tmp_path: Path) -> None:
    require_training()
    pytest.importorskip("vl_convert", reason="the extra 'report' is not installed")
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SLIPWAY_YARD_HOME": str(tmp_path / "yard"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path),
        **WITHOUT_GATE,
    }
    environment = {**os.environ, **own}
    run = [sys.executable, "-m", "scripts.notebook", str(NOTEBOOK), str(tmp_path / "run.ipynb")]
    try:
        done = subprocess.run(
            run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=540
        )
    finally:
        subprocess.run(["slipway", "yard", "down"], env=environment, check=True)
    assert done.returncode == 0, done.stderr
    shown, stored = code(tmp_path / "run.ipynb"), code(NOTEBOOK)
    assert [kinds(cell) for cell in shown] == [kinds(cell) for cell in stored]
    assert "'succeeded'" in str(shown)
    assert "is destroyed; 0 of its machines run" in str(shown[-1])
    first, last = LOSS.findall(str(shown))[0]
    assert float(last) < float(first)
