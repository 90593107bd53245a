"""A job's log reaches CloudWatch whole and in order, and a sink that fails costs the job nothing."""

from __future__ import annotations

from typing import Any

from slipway.jobs.platforms.slurm.node.job_log import LogShipping, batches


class Sink:
    class exceptions:  # noqa: N801  # botocore's own word
        class ResourceAlreadyExistsException(Exception):
            pass

    def __init__(self, *, is_denied: bool = False) -> None:
        self.lines: list[str] = []
        self.is_denied = is_denied

    def create_log_stream(self, **_: Any) -> None:
        raise self.exceptions.ResourceAlreadyExistsException

    def put_log_events(self, **given: Any) -> None:
        if self.is_denied:
            raise PermissionError("AccessDenied")
        self.lines += [event["message"] for event in given["logEvents"]]


def shipped(sink: Sink, lines: list[str]) -> list[str]:
    said: list[str] = []
    shipping = LogShipping(lambda: sink, "group", "stream", said.append, every_seconds=0.01)
    for line in lines:
        shipping.ship(line)
    shipping.close()
    return said


def test_every_line_arrives_in_order() -> None:
    sink, lines = Sink(), [f"line {number}" for number in range(500)]
    assert not shipped(sink, lines)
    assert sink.lines == lines


def test_a_sink_that_is_denied_is_said_once_and_counted() -> None:
    said = shipped(Sink(is_denied=True), ["a", "b", "c"])
    assert [line for line in said if "does not take this log (AccessDenied)" in line] == said[:1]
    assert said[-1] == "[run] warning: 3 lines are in this file and not in CloudWatch Logs"


def test_a_call_holds_no_more_than_cloudwatch_takes() -> None:
    found = batches([(0, "x" * 100_000)] * 25 + [(0, "y")] * 10_001)
    assert all(sum(len(text) + 26 for _, text in batch) <= 1_048_576 for batch in found)
    assert all(len(batch) <= 10_000 for batch in found)
    assert sum(map(len, found)) == 25 + 10_001
