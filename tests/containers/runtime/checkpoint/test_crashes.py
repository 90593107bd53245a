"""A checkpoint survives the end of any process at any moment; real processes try every moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.runtime import crash_points
from tests.containers.runtime.saving import FAILED, WRONG

ROOT = Path(__file__).parents[4]

SWEEPS = [
    # world, rank that dies, mode, steps saved before
    (1, 0, "kill", 0),
    (1, 0, "kill", 2),
    (1, 0, "torn", 2),
    (1, 0, "power", 0),
    (1, 0, "power", 2),
    (2, 0, "kill", 2),
    (2, 1, "kill", 2),
    (2, 1, "torn", 1),
]


@pytest.mark.parametrize(("world", "dying", "mode", "older"), SWEEPS)
def test_no_crash_point_loses_a_checkpoint_or_gives_a_wrong_one(
    tmp_path: Path, world: int, dying: int, mode: str, older: int
) -> None:
    """F01, F17, F18, F19: also when one rank of two dies while both save."""
    given = [str(tmp_path), str(world), str(dying), mode, str(older)]
    command = [sys.executable, "-m", crash_points.__name__, *given]
    swept = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(swept.stdout)
    assert len(found["after_each"]) > (3 if dying else 10), "the sweep stood before too few operations"
    for statuses in found["after_each"]:
        assert not {WRONG, FAILED} & set(statuses), found["after_each"]
        assert len(set(statuses)) == 1, "ranks resumed from different steps"
        assert statuses[0] in (older, older + 1), found["after_each"]
    assert found["unharmed"] == [older + 1] * world
