"""A job's log has every line of every node once, in order, from the first attempt to the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.jobs.platforms.batch.runs import read_run
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.words.run import AnyFound, Found
from slipway.jobs.words.targets import BatchTarget
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.words.test_targets import TARGET
from tests.yard.conftest import RunningYard

NOW = int(time.time() * 1000)


@pytest.fixture
def logs(yard_shell: RunningYard) -> Iterator[Any]:
    client = yard_shell.client("logs")
    client.create_log_group(logGroupName=TARGET.log_group)
    yield client
    unscript(yard_shell)


def put(logs: Any, stream: str, *messages: str, at: int = 0) -> None:
    existing = logs.describe_log_streams(logGroupName=TARGET.log_group, logStreamNamePrefix=stream)
    if not existing["logStreams"]:
        logs.create_log_stream(logGroupName=TARGET.log_group, logStreamName=stream)
    events = [
        {"timestamp": NOW + at + number * 10, "message": message} for number, message in enumerate(messages)
    ]
    logs.put_log_events(logGroupName=TARGET.log_group, logStreamName=stream, logEvents=events)


def found(status: str = "SUCCEEDED", nodes: int = 2, target: BatchTarget = TARGET) -> AnyFound:
    detail = {"jobId": "0a1b", "jobName": "bert", "status": status, "nodeProperties": {"numNodes": nodes}}
    return Found(run=read_run(detail, target), target=target, detail=detail)


def node(index: int, *streams: str) -> dict[str, Any]:
    """Describe one node as DescribeJobs does: ended attempts, and the running or last one."""
    return {
        "jobId": f"0a1b#{index}",
        "jobName": "bert",
        "status": "RUNNING",
        "attempts": [{"container": {"logStreamName": stream}} for stream in streams[:-1]],
        "container": {"logStreamName": streams[-1]} if streams else {},
    }


def describe(yard: RunningYard, *answers: list[dict[str, Any]]) -> None:
    """Answer each call with one list of jobs, and then always the last one."""
    body: list[dict[str, Any]] = [{"jobs": jobs} for jobs in answers]
    fault = Fault(service="batch", operation="DescribeJobs", kind=FaultKind.RESPOND, body=body, times=1000)
    script(yard, fault)


def read(wanted: Wanted | None = None, **changes: Any) -> list[str]:
    lines = follow_lines(found(**changes), wanted or Wanted(), to_end=False)
    return [f"{line.node}: {line.text}" for line in lines]


def test_the_lines_of_all_nodes_and_attempts_come_in_the_order_of_the_clock_or_those_that_are_asked_for(
    yard_shell: RunningYard, logs: Any
) -> None:
    put(logs, "job/first", "first attempt", at=-100)
    put(logs, "job/0", "[0] one", "[0] three", "[1] five", "[10] six")
    put(logs, "job/1", "[8] two", "[8] four", at=5)
    describe(yard_shell, [node(0, "job/first", "job/0"), node(1, "job/1")])
    lines = ["0: first attempt", "0: [0] one", "1: [8] two", "0: [0] three", "1: [8] four"]
    assert read() == [*lines, "0: [1] five", "0: [10] six"]
    describe(yard_shell, [node(0, "job/0")])
    assert read(Wanted(rank=1), nodes=1) == ["0: [1] five"]
    unscript(yard_shell)
    describe(yard_shell, [node(1, "job/1")])
    assert read(Wanted(node=1)) == ["1: [8] two", "1: [8] four"]


def test_more_lines_than_a_page_holds_come_once_each(yard_shell: RunningYard, logs: Any) -> None:
    lines = [f"[0] {number}" for number in range(25_000)]
    for start in range(0, len(lines), 10_000):
        put(logs, "job/0", *lines[start : start + 10_000], at=start * 10)
    describe(yard_shell, [node(0, "job/0")])
    assert read(nodes=1) == [f"0: {line}" for line in lines]


def test_an_empty_page_is_not_the_end(yard_shell: RunningYard, logs: Any) -> None:
    pages: list[dict[str, Any]] = [
        {"events": [{"timestamp": NOW, "message": "one"}], "nextForwardToken": "a"},
        {"events": [], "nextForwardToken": "b"},
        {"events": [{"timestamp": NOW, "message": "two"}], "nextForwardToken": "c"},
        {"events": [], "nextForwardToken": "c"},
    ]
    fault = Fault(service="logs", operation="GetLogEvents", kind=FaultKind.RESPOND, body=pages, times=None)
    script(yard_shell, fault)
    describe(yard_shell, [node(0, "job/0")])
    assert read(nodes=1) == ["0: one", "0: two"]


def test_nodes_without_a_stream_yet_have_no_lines(yard_shell: RunningYard, logs: Any) -> None:
    put(logs, "job/1", "here")
    describe(yard_shell, [node(0), node(1, "job/1"), {"jobId": "0a1b#2"}, node(3, "not/there")])
    assert read(nodes=4) == ["1: here"]


def test_following_gives_new_lines_once_and_ends_when_the_job_does(
    yard_shell: RunningYard, logs: Any
) -> None:
    running = {"jobId": "0a1b", "jobName": "bert", "status": "RUNNING", "nodeProperties": {"numNodes": 1}}
    ended = {**running, "status": "SUCCEEDED"}
    nodes = [node(0, "job/0")]
    describe(yard_shell, nodes, [running], nodes, [ended], nodes, [ended], nodes)
    put(logs, "job/0", "one")
    coming = [["two", "three"], [], ["the last one, which comes after the end"]]
    states: list[str] = []

    def pause(_: float) -> None:
        if more := coming.pop(0):
            put(logs, "job/0", *more, at=1000 * (5 - len(coming)))

    lines = follow_lines(
        found("RUNNING", nodes=1),
        Wanted(),
        to_end=True,
        seen=lambda run: states.append(run.state),
        pause=pause,
    )
    told = [line.text for line in lines]
    assert told == ["one", "two", "three", "the last one, which comes after the end"]
    assert states == ["running", "running", "succeeded", "succeeded"]


def test_following_outlasts_what_goes_by_and_loses_no_line(yard_shell: RunningYard, logs: Any) -> None:
    put(logs, "job/0", "one")
    put(logs, "job/1", "two", at=5)
    tries = 3  # of a reader by itself
    for service, operation in (("logs", "GetLogEvents"), ("batch", "DescribeJobs")):
        fault = Fault(service=service, operation=operation, kind=FaultKind.SERVER_ERROR, times=2 * tries)
        script(yard_shell, fault)
    nodes = [node(0, "job/0"), node(1, "job/1")]
    ended = {"jobId": "0a1b", "jobName": "bert", "status": "SUCCEEDED", "nodeProperties": {"numNodes": 2}}
    describe(yard_shell, nodes, [ended], nodes, [ended], nodes)
    waited: list[float] = []
    lines = follow_lines(found("RUNNING"), Wanted(), to_end=True, pause=waited.append)
    assert [line.text for line in lines] == ["one", "two"]
    assert len(waited) > 2 * 2


def test_a_log_that_may_not_be_read_is_told(yard_shell: RunningYard, logs: Any) -> None:
    from slipway.jobs.words.errors import SlipwayError

    fault = Fault(service="logs", operation="GetLogEvents", kind=FaultKind.SERVER_ERROR, times=None)
    script(yard_shell, fault)
    describe(yard_shell, [node(0, "job/0")])
    with pytest.raises(SlipwayError, match="logs:GetLogEvents gave no answer"):
        read(nodes=1)
