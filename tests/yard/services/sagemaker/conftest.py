"""Fixtures: a yard in which training jobs have a fast clock: the 120 seconds of a stop are 2.4 here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts.reconciler import HOSTS_VARIABLE, NO_HOSTS
from slipway.yard.machines.settings import CLOCK_VARIABLE
from tests.yard.conftest import RunningYard
from tests.yard.services.sagemaker.training_site import TrainingSite, new_site, require_training

CLOCK = "0.02"


@pytest.fixture(scope="session")
def training_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningYard]:
    require_training()
    home = tmp_path_factory.mktemp("training") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_VARIABLE, CLOCK)
        patch.setenv(HOSTS_VARIABLE, NO_HOSTS)
        started = process.up(folder=home)
    yield RunningYard(endpoint=started.state.endpoint, home=home)
    process.down(folder=home)


@pytest.fixture(scope="module")
def site(training_yard: RunningYard) -> TrainingSite:
    """Use one account for all tests of a file, each with its own names of jobs."""
    control(training_yard, "POST", "/reset")
    return new_site(training_yard)
