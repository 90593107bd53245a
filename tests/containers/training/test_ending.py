"""A training knows when another step and a save would not fit any more."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from containers.runtime.platforms import read_contract
from containers.training.ending import Ending

ALONE = read_contract({})


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """A training listens to it; the test session should not."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_step_near_the_deadline_ends_the_training() -> None:
    contract = SimpleNamespace(deadline=1.0)
    ending = Ending(contract)  # type: ignore[arg-type]  # it reads one field
    assert ending.is_near
    assert not ending.has_time_to_save()
    assert not Ending(ALONE).is_near
    assert Ending(ALONE).seconds_left() == math.inf
