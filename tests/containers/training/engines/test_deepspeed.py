"""What a training under DeepSpeed says when its numbers end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.training.engines.deepspeed_ranks import STAGES
from tests.containers.training.mesh_ranks import free_port
from tests.packages import require

require("deepspeed")

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.slow
def test_a_gradient_that_is_no_number_ends_the_training_with_advice_at_every_stage() -> None:
    """DeepSpeed itself returns such a norm, or stops at an assertion: neither is what a person is told."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.containers.training.engines.deepspeed_ranks", str(free_port())],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LOCAL_RANK": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    lines = [line for line in found.stdout.splitlines() if " ended with " in line]
    assert [line.split()[0] for line in lines] == list(STAGES)
    for line in lines:
        assert re.search(r"the gradient norm is (nan|inf) at step 2.*: lower learning_rate", line)
