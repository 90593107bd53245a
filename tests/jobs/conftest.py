"""A yard for the tests of commands, and an environment that points at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.jobs.cli.cli import run
from slipway.jobs.cloud import aws
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import unscript
from tests.jobs.deployed import deploy_target
from tests.yard.conftest import RunningYard, point_at, yard

__all__ = ["slipway", "yard", "yard_shell"]

Slipway = Callable[..., tuple[int, str, str]]


@pytest.fixture
def yard_shell(yard: RunningYard, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningYard]:
    """The environment of somebody who ran `eval "$(slipway yard env)"`, and an empty yard."""
    point_at(yard, monkeypatch)
    _forget_clients()
    yield yard
    _forget_clients()


@pytest.fixture
def slipway(capsys: pytest.CaptureFixture[str]) -> Slipway:
    """Runs one command line: the exit code, what went to stdout, what went to stderr."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def target(yard_shell: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchTarget]:
    """One that jobs can be submitted to, and a journal that is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield deploy_target(yard_shell)
    unscript(yard_shell)


def _forget_clients() -> None:
    """Clients are kept for the life of a process, and these are of one yard."""
    aws.client.cache_clear()
    aws.sender.cache_clear()
    aws.reader.cache_clear()
