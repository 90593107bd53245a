"""A training knows when another step and a save would not fit any more."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.saving import ShutdownWatch

ALONE = read_contract({})
pytestmark = pytest.mark.usefixtures("own_sigterm")


def test_a_step_near_the_deadline_ends_the_training() -> None:
    contract = SimpleNamespace(deadline=1.0)
    ending = ShutdownWatch(contract)  # type: ignore[arg-type]  # it reads one field
    assert ending.is_near
    assert not ending.has_time_to_save()
    assert not ShutdownWatch(ALONE).is_near
    assert ShutdownWatch(ALONE).seconds_left() == math.inf
