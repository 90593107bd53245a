"""A yard for the tests of commands, and an environment that points at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cli.cli import run
from slipway.jobs.cloud import aws
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import unscript
from tests.jobs.deployed import deploy_target
from tests.yard.conftest import RunningYard, point_at, yard

__all__ = ["slipway", "yard", "yard_shell"]


@dataclass(frozen=True, slots=True)
class Slipway:
    """Run one command line in this process: the exit code, what went to stdout, what went to stderr."""

    capsys: pytest.CaptureFixture[str]
    first: tuple[str, ...] = ()

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run((*self.first, *arguments))
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def printed(self, *arguments: str) -> str:
        """Return what a command that succeeds prints."""
        code, out, err = self(*arguments)
        assert code == 0, err
        return out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.printed(*arguments))

    def told(self, *arguments: str, code: int = 0) -> str:
        """Return what a command that ends so says beside what it prints."""
        ended, _, err = self(*arguments)
        assert ended == code, err
        return err

    def refused(self, *arguments: str, code: int = 1) -> str:
        """Return why a command prints nothing."""
        ended, out, err = self(*arguments)
        assert (ended, out) == (code, ""), err
        assert "Traceback" not in err
        return err


@pytest.fixture
def yard_shell(yard: RunningYard, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningYard]:
    """The environment of somebody who ran `eval "$(slipway yard env)"`, and an empty yard."""
    point_at(yard, monkeypatch)
    forget_clients()
    yield yard
    forget_clients()


@pytest.fixture
def slipway(capsys: pytest.CaptureFixture[str]) -> Slipway:
    return Slipway(capsys)


@pytest.fixture
def target(yard_shell: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchTarget]:
    """One that jobs can be submitted to, and a journal that is empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield deploy_target(yard_shell)
    unscript(yard_shell)


def forget_clients() -> None:
    """Clients are kept for the life of a process, and these are of one yard."""
    aws.client.cache_clear()
    aws.sender.cache_clear()
    aws.reader.cache_clear()
