"""`slipway-node serve`: joins the cluster, keeps the roster current; the main node also checks readiness."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from slipway.jobs.platforms.mpi.node.hosts import unreachable
from slipway.jobs.platforms.mpi.node.instance import read_instance
from slipway.jobs.platforms.mpi.node.join import (
    STARTED,
    STOPS,
    join,
    read_record,
    take_back_answer,
    write_record,
    write_roster,
)
from slipway.jobs.platforms.mpi.node.lock import CHECK, last_holder
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup, read_setup
from slipway.jobs.platforms.mpi.node.ssh_trust import has_keys
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.mpi import Member, Readiness, decode_readiness

REFRESH_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 2.0
_JOIN_AGAIN_SECONDS = 24 * 3600.0  # certificates are valid for a week
_ENTER_SECONDS = 60.0  # a log-in costs each node more than a connection
_ASK_SECONDS = 300.0


@dataclass(slots=True)
class RoundPace:
    """Decides the rest between rounds: seconds while nodes come, because somebody may wait for them."""

    rest_s: float = _FIRST_PAUSE_SECONDS
    _last: tuple[str, ...] | None = None

    def slow_down(self) -> None:
        self.rest_s = min(2 * self.rest_s, REFRESH_SECONDS)

    def see(self, instances: tuple[str, ...]) -> None:
        """Start again with short rests if the nodes differ from those of the last round."""
        if instances != self._last:
            self.rest_s, self._last = _FIRST_PAUSE_SECONDS, instances


class Server:
    def __init__(self, where: NodePaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._where = where
        self._clock = clock
        self._setup: Setup | None = None
        self._joins_at = self._checks_at = self._enters_at = float("-inf")
        self._checked: tuple[str, ...] = ()  # instances, at the last check
        self._has_released = False
        self.pace = RoundPace()

    def turn(self) -> None:
        """Do one round; after any failure the next round tries again."""
        now = self._clock()
        self.pace.slow_down()
        if self._setup is None or now >= self._joins_at or not has_keys(self._where):
            setup = read_setup(self._where)
            if self._setup is None:  # an answer in the record is from before this machine started
                take_back_answer(setup, read_instance().id, STARTED)
            join(self._where, setup)
            self._setup = setup
            self._joins_at = now + _JOIN_AGAIN_SECONDS
        members = find_members(self._setup.cluster, self._setup.region)
        write_roster(self._where, members)
        self.pace.see(tuple(member.instance_id for member in members))
        if members and members[0].instance_id == read_instance().id:
            self._look(self._setup, members, now)
            self.release_left()

    def _look(self, setup: Setup, members: Sequence[Member], now: float) -> None:
        ids = tuple(member.instance_id for member in members)
        if ids == self._checked and now < self._checks_at:
            return
        self._checks_at = now + 2 * self.pace.rest_s
        if ids == self._checked and self._still_holds(setup, members, now):
            return
        if found := ask_check():  # None: a job is running, which proves the same
            write_record(setup, found)
            self._checked = ids

    def _still_holds(self, setup: Setup, members: Sequence[Member], now: float) -> bool:
        """Return True if every node has answered, withdrew nothing since, and lets jobs in."""
        record = read_record(setup)
        if record is None or not all(node.answered for node in record.nodes):
            return False
        names, addresses = [each.name for each in members], [each.address for each in members]
        if unreachable(self._where, names, addresses):
            return False
        if now < self._enters_at or last_holder(self._where) is None:
            return True  # the running job is not disturbed
        self._enters_at = now + _ENTER_SECONDS
        return _ask("enter", *names).returncode == 0

    def release_left(self) -> None:
        """Unprotect the nodes of a job that could not do so itself.

        Systems Manager kills the `run` of a job that is cancelled or takes too long, and a main node may be
        lost: without this, the nodes would stay protected, and be paid for, forever.
        """
        last = last_holder(self._where)
        if last is None or (last in ("", CHECK) and self._has_released):
            return  # a job is running, or none has run since
        self._has_released = _ask("release").returncode == 0


def ask_check() -> Readiness | None:
    """Ask for the all-reduce; return None while a job holds the cluster."""
    ran = _ask("check")
    return decode_readiness(ran.stdout) if ran.returncode == 0 else None


def _ask(word: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the word in a process that becomes the cluster's user, since this process is root's."""
    return subprocess.run(
        [sys.executable, "-m", "slipway.jobs.platforms.mpi.node.main", word, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_ASK_SECONDS,
        check=False,
    )


def serve(where: NodePaths) -> None:
    """Serve until systemd ends this process, such as before a shutdown or reboot."""
    server = Server(where)
    signal.signal(signal.SIGTERM, _leave)
    try:
        while True:
            _try(server.turn)
            time.sleep(server.pace.rest_s)
    finally:
        _try(lambda: take_back_answer(read_setup(where), read_instance().id, STOPS))


def _try(act: Callable[[], None]) -> None:
    try:
        act()
    except SlipwayError as error:
        _complain(f"{error.message}; {error.hint}")
    except Exception as error:  # noqa: BLE001 - AWS may be out of reach for a while, and a node goes on
        _complain(f"{type(error).__name__}: {error}")


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit


def _complain(line: str) -> None:
    print(f"error: {line}", file=sys.stderr, flush=True)
