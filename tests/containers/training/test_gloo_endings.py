"""Ranks that trained together end with 0, however busy the machine is while they do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.containers.training.ranks import ROOT

ENDINGS = 20


def test_ranks_of_gloo_end_with_0_every_time_on_a_busy_machine() -> None:
    pytest.importorskip("torch")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.containers.training.gloo_endings", str(ENDINGS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == f"{2 * ENDINGS} ranks ended, not with 0: []\n", ran.stderr
