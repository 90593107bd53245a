"""Ranks talk over gloo, whatever carries their gradients; and a layout's mesh is the one that torch makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.containers.training.ranks import ROOT


def test_small_messages_do_not_go_over_a_backend_that_knows_no_whole_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.containers.training.mesh_ranks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 ranks ended with [0, 0]"]
