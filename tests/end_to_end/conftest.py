"""A yard of the session's own, and the real CDK command line pointed at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from slipway.jobs.cloud.aws import AccessKey, client_at
from slipway.yard.machines.memory import KernelMemory
from slipway.yard.state import MACHINE_IMAGES
from tests.yard.accounts import raise_quotas, stand_in
from tests.yard.conftest import RunningYard

ROOT = Path(__file__).resolve().parents[2]
REGION = "us-east-1"
# The gate looks at every template of every stack, for seconds. test_clusters.py deploys through it.
WITHOUT_GATE = {"CDK_VALIDATION": "false"}
THROUGH_GATE = ("env", "--unset=CDK_VALIDATION")
IN_MEMORY_GIB, MEMORY_GIB = 4, 8  # of baked images, and of what has to be free for that


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    status: int
    text: str  # standard output and error, as they came


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Runs commands as a user would after `eval "$(slipway yard env)"`."""

    environment: Mapping[str, str]
    printed: Mapping[str, str] = field(default_factory=dict)  # by the commands that made it ready
    refused: set[str] = field(default_factory=set)  # actions that a test tried in order to see them refused
    folder: Path = ROOT  # the current folder of each command

    def run(self, *command: str, timeout_s: int = 300) -> Finished:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        return Finished(status=done.returncode, text=done.stdout)

    def must(self, *command: str) -> str:
        done = self.run(*command)
        assert done.status == 0, f"{' '.join(command)} ended with {done.status}:\n{done.text}"
        return done.text

    def data(self, *command: str, timeout_s: int = 300) -> Any:
        """Return what a program would read: standard output alone, as JSON."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout_s,
        )
        return json.loads(done.stdout)

    def follow_until(self, job: str, words: str, *, seconds: float = 300, may_fail: bool = False) -> None:
        """Read the log as it is written until a line has the words; give a command that failed again."""
        said, deadline = "", time.monotonic() + seconds
        while words not in said:
            assert time.monotonic() < deadline, f"the log never said {words!r}: {said}"
            ended, said = self._follow(job, words, deadline)
            assert may_fail or words in said, f"the log ended with {ended} and never said {words!r}: {said}"

    def _follow(self, job: str, words: str, deadline: float) -> tuple[int, str]:
        follow = subprocess.Popen(
            ("slipway", "logs", job, "--follow"),
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, clock = "", Timer(max(deadline - time.monotonic(), 0), follow.kill)
        clock.start()
        with follow:
            assert follow.stdout is not None
            for line in follow.stdout:
                said += line
                if words in line:
                    follow.kill()
        clock.cancel()
        return follow.returncode, said

    def client(self, service: str) -> Any:
        names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        url, key, secret = (self.environment[name] for name in names)
        return client_at(url, service, REGION, AccessKey(key, secret))


def make_ready(yard: RunningYard) -> None:
    """Give the account what README and the roads get as a user does: quotas, and AMIs by name only."""
    raise_quotas(yard)
    stand_in(yard)


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A yard whose account is ready."""
    with yard_at(tmp_path_factory.mktemp("yard"), make_ready) as ready:
        yield ready


@pytest.fixture(scope="module")
def fresh_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A yard of the module's own, as somebody starts it for the first time: nothing is made ready."""
    home = tmp_path_factory.mktemp("fresh")
    with yard_at(home, lambda _: None, baking=True) as fresh:
        yield fresh


@contextmanager
def yard_at(home: Path, prepare: Callable[[RunningYard], None], *, baking: bool = False) -> Iterator[Shell]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "SLIPWAY_YARD_HOME": str(home), **WITHOUT_GATE}
    plain = Shell(environment={**os.environ, **own})
    up = plain.must("slipway", "yard", "up")
    in_memory = baking and images_in_memory(home / MACHINE_IMAGES)
    try:
        exported = plain.must("bash", "-c", 'eval "$(slipway yard env)" && env -0').split("\0")
        ready = Shell(environment=dict(entry.split("=", 1) for entry in exported if "=" in entry))
        prepare(RunningYard(endpoint=ready.environment["AWS_ENDPOINT_URL"], home=home))
        bootstrap = ready.must("cdk", "bootstrap", "--app", "", f"aws://123456789012/{REGION}")
        yield replace(ready, printed={"slipway yard up": up, "cdk bootstrap": bootstrap})
        # Roles may do all else that they called: no test here takes a permission away.
        denied = ready.data("slipway", "yard", "denied", "--json")
        assert [row for row in denied if row["action"] not in ready.refused] == []
    finally:
        if in_memory:
            subprocess.run(["umount", "--lazy", str(home / MACHINE_IMAGES)], check=True)
        plain.must("slipway", "yard", "down")


def images_in_memory(folder: Path) -> bool:
    """Keep baked images in memory if there is enough: a disk takes minutes to delete their 50 000 files."""
    if os.geteuid() != 0 or KernelMemory().free_mib() < MEMORY_GIB << 10:
        return False
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={IN_MEMORY_GIB}g,mode=700", "images", str(folder)]
    return subprocess.run(mount, check=False).returncode == 0
