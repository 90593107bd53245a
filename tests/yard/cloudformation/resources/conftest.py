"""Fixtures: the yard with which providers are tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.yard.chaos.switches import SWITCHES
from slipway.yard.endpoint import SECRET_VARIABLE, control
from tests.yard.cloudformation.resources.world import World
from tests.yard.conftest import RunningYard


@pytest.fixture(scope="session")
def endpoint(yard_process: RunningYard) -> Iterator[str]:
    """Tell own_client where the yard is, once, as the yard's own process does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_YARD_ENDPOINT", yard_process.endpoint)
        patch.setenv(SECRET_VARIABLE, yard_process.secret)
        yield yard_process.endpoint


@pytest.fixture
def world(endpoint: str, shared_yard: RunningYard) -> Iterator[World]:
    # An earlier test may have switched faults on, and CloudFormation waits minutes when it is throttled.
    control(shared_yard, "POST", "/switches", {"values": dict.fromkeys(SWITCHES, 0)})
    world = World()
    yield world
    world.delete()
