"""The attempts of a job over MPI: a host lost before its ranks start takes one, as one lost later does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node import run as node_run
from slipway.jobs.platforms.mpi.node.hosts import Said
from slipway.jobs.platforms.mpi.node.mpirun import Ended
from slipway.jobs.platforms.mpi.node.run import DeadHost
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.words.mpi import Member
from tests.jobs.platforms.mpi.node.conftest import SETUP
from tests.jobs.words.test_mpi import JOB

MEMBER = Member(name="ip-127-0-0-1", address="127.0.0.1", instance_id="i-1")
Attempted = Callable[..., tuple[int, list[int]]]
DEAD = DeadHost("host ip-10-0-0-2 does not answer: Connection timed out")


@pytest.fixture
def attempted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Attempted]:
    """Return what runs a job of two attempts whose hosts answer, or fail, as they are told to.

    It returns the exit code and the attempts whose ranks began.
    """

    def attempt(found: list[Exception | None], prepared: list[Exception | None]) -> tuple[int, list[int]]:
        begun: list[int] = []

        def find(*_: object) -> list[Member]:
            if found and (problem := found.pop(0)):
                raise problem
            return [MEMBER]

        def prepare(*given: object) -> object:
            if prepared and (problem := prepared.pop(0)):
                raise problem
            return given[-1]

        def begin(_where: object, work: int, *_: object) -> Ended:
            begun.append(work)
            return Ended(code=0, dead=())

        fakes: dict[str, object] = {
            "_members_of": find,
            "_prepare": prepare,
            "run_everywhere": begin,
            "agree": lambda *_: None,
        }
        fakes |= dict.fromkeys(("become_cluster_user", "protect", "release"), lambda *_: None)
        fakes |= {"_read_request": lambda *_: replace(JOB, attempts=2), "_LOOK_AGAIN_SECONDS": 0.0}
        for name, fake in fakes.items():
            monkeypatch.setattr(node_run, name, fake)
        return node_run.run_job(NodePaths(root=tmp_path), SETUP, "jobs/x/request.json"), begun

    before = signal.getsignal(signal.SIGTERM)
    yield attempt
    signal.signal(signal.SIGTERM, before)


def test_a_host_that_dies_before_the_first_start_takes_an_attempt_and_is_waited_for(
    attempted: Attempted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attempted(found=[], prepared=[DEAD]) == (0, [2])
    said = capsys.readouterr().err
    assert "[run] error: attempt 1 of 2 did not start: host ip-10-0-0-2 does not answer" in said
    assert "[run] attempt 1 of 2 failed on its machines; the next resumes once all answer" in said


def test_a_host_that_is_gone_before_the_first_start_takes_an_attempt_and_is_waited_for(
    attempted: Attempted,
) -> None:
    missing = node_run._Missing("job glue-1 asks for 2 nodes and 1 run: ip-10-0-0-1")
    assert attempted(found=[missing, missing, missing], prepared=[]) == (0, [2])


def test_a_node_asks_who_it_is_as_root_even_where_others_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The metadata service answers nobody else, and a later attempt has to know."""
    asked: list[str] = []
    monkeypatch.setattr(node_run, "find_members", lambda *_: [MEMBER])
    monkeypatch.setattr(node_run, "read_instance", lambda: asked.append("who"))
    with pytest.raises(node_run._Missing, match="asks for 4 nodes and 1 run"):
        node_run._members_of(NodePaths(root=tmp_path), SETUP, JOB)
    assert asked == ["who"]


def test_hosts_that_do_not_answer_in_all_attempts_end_the_job_and_the_log_counts_them(
    attempted: Attempted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attempted(found=[], prepared=[DEAD, DEAD]) == (85, [])
    assert capsys.readouterr().err.endswith(f"error: {JOB.name} ended with exit code 85, attempt 2 of 2\n")


def test_a_host_that_nobody_replaces_ends_the_job_and_the_log_counts_no_attempt_that_was_not_made(
    attempted: Attempted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(node_run, "REPLACED_SECONDS", -1)
    assert attempted(found=[None, None, DEAD], prepared=[DEAD]) == (85, [])
    said = capsys.readouterr().err
    assert "host ip-10-0-0-2 does not answer: Connection timed out; it was not replaced in" in said
    assert said.endswith(f"error: {JOB.name} ended with exit code 85, attempt 1 of 2\n")


def test_a_host_that_dies_while_it_fetches_the_code_is_a_dead_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job is not to blame, and another attempt may find another host."""
    monkeypatch.setattr(
        node_run, "ask_all", lambda *_: [Said(host="ip-10-0-0-2", code=255, output="", error="timed out")]
    )
    with pytest.raises(DeadHost, match="host ip-10-0-0-2 does not answer: timed out"):
        node_run._fetch_everywhere(NodePaths(root=tmp_path), [MEMBER], JOB.code)
