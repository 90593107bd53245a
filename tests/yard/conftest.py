"""Fixtures: one real yard for each worker (tests/conftest.py), as new for each test that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import AccessKey, client_at
from slipway.yard import process
from slipway.yard.chaos import conditions, consistency
from slipway.yard.endpoint import ACCESS_KEY_ID, control
from slipway.yard.machines.hosts.reconciler import HOSTS_VARIABLE, NO_HOSTS
from slipway.yard.state import read_state
from tests.yard.accounts import raise_quotas

if TYPE_CHECKING:
    from tests.yard.cloudformation.stacks import Stacks

REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningYard:
    endpoint: str
    home: Path  # where it keeps its state

    @property
    def secret(self) -> str:
        state = read_state(self.home)
        assert state, "it is up"
        return state.secret

    def variables(self) -> dict[str, str]:
        """Return what `slipway yard env` gives a shell, as far as boto3 needs it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
        }

    def client(self, service: str, region: str = REGION) -> Any:
        """Return unmodified boto3 with the yard's own key; it never repeats a request."""
        return client_at(self.endpoint, service, region, AccessKey(ACCESS_KEY_ID, self.secret))


def start(home: Path) -> RunningYard:
    """Start a yard without hosts; tests/yard/machines/hosts has another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOSTS_VARIABLE, NO_HOSTS)
        endpoint = process.up(folder=home).state.endpoint
    started = RunningYard(endpoint=endpoint, home=home)
    raise_quotas(started)
    return started


def empty(yard: RunningYard) -> None:
    control(yard, "POST", "/reset")
    raise_quotas(yard)


def point_at(yard: RunningYard, patch: pytest.MonkeyPatch) -> None:
    """Give this process the environment of `eval "$(slipway yard env)"`."""
    for name, value in yard.variables().items():
        patch.setenv(name, value)
    patch.delenv("AWS_SESSION_TOKEN", raising=False)
    patch.setattr("boto3.DEFAULT_SESSION", None)  # it caches the keys of the first yard that it meets
    aws.own_session.cache_clear()  # and so does ours


@pytest.fixture(autouse=True)
def calm() -> None:
    """Forget the faults that an earlier test switched on in this process."""
    conditions.reset()
    consistency.reset()


@pytest.fixture
def yard(shared_yard: RunningYard) -> RunningYard:
    """The yard with only an account whose quotas were raised."""
    empty(shared_yard)
    return shared_yard


@pytest.fixture
def fresh_yard(shared_yard: RunningYard) -> Iterator[RunningYard]:
    """The yard as it starts, with the account of a user who signed up today."""
    control(shared_yard, "POST", "/reset")
    yield shared_yard
    raise_quotas(shared_yard)  # for tests that do not reset it


@pytest.fixture
def stacks(yard: RunningYard) -> Stacks:
    from tests.yard.cloudformation.stacks import Stacks

    return Stacks(yard)
