"""Reads what a job's nodes print, from CloudWatch Logs: page by page, without repeats, to the job's end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from slipway.containers.runtime.launch.node_roles import TO_WORK_TOGETHER, WORKED_ALONE
from slipway.jobs.cloud.aws import Unanswered, ask, no_answer, outlast, reader
from slipway.jobs.cloud.objects import last_lines
from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.submit.find import refresh
from slipway.jobs.words.run import AnyFound, Explanation, JobState, Run, rank_of

POLL_SECONDS = 2.0
# containers/runtime/observe/log_pump.py and jobs/platforms/mpi/node/run.py start their own lines with these.
_LAUNCHER = ("[node ", "[run] ")
# CloudWatch may show the last lines only after the job has ended.
LAST_LOOKS = 2
_NO_STREAM_YET = "ResourceNotFoundException"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    time: datetime
    node: int
    rank: int | None  # None: the node's launcher printed it
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    node: int | None = None  # None: all nodes
    rank: int | None = None

    def has(self, line: LogLine) -> bool:
        return self.node in (None, line.node) and self.rank in (None, line.rank)


Page = tuple[list[LogLine], str]  # with the token of the next one
Asking = Callable[[Callable[[], Any]], Any]  # asks, and asks again where it is worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """Remembers how far each log stream has been read."""

    group: str
    region: str
    # Returns the node that printed a line, given its stream's node and its text.
    locate: Callable[[int, str], int] = field(default=lambda node, _text: node)
    tokens: dict[tuple[int, str], str | None] = field(default_factory=dict)  # next tokens, by node and stream

    def watch(self, streams: Sequence[tuple[int, str]]) -> None:
        for stream in streams:
            self.tokens.setdefault(stream, None)

    def read_new(self, asking: Asking = lambda asked: asked()) -> Iterator[list[LogLine]]:
        """Yield one page of each stream at a time, sorted by time, until there is nothing new."""
        behind = list(self.tokens)
        while behind:
            pages = asking(partial(self._next_pages, behind))  # after an error, all of them come again
            self.tokens.update((stream, token) for stream, (_, token) in pages.items())
            lines = [line for page, _ in pages.values() for line in page]
            if lines:
                yield sorted(lines, key=lambda line: line.time)
            behind = list(pages)

    def _next_pages(self, streams: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Page]:
        """Return the next page of each stream that has one."""
        return {stream: page for stream in streams if (page := self._next_page(stream))}

    def _next_page(self, stream: tuple[int, str]) -> Page | None:
        """Return the next page; None at the end. An empty page need not be the last."""
        node, name = stream
        token = self.tokens[stream]
        asked = {"logGroupName": self.group, "logStreamName": name, "startFromHead": True}
        answer = ask(
            reader("logs", self.region), "GetLogEvents", **asked, **({"nextToken": token} if token else {})
        )
        if isinstance(answer, Unanswered):
            if answer.code == _NO_STREAM_YET:
                return None
            raise no_answer(answer)
        next_token = answer.get("nextForwardToken")
        lines: list[LogLine] = []
        for event in answer.get("events", []):  # agents collect several lines in one
            moment = datetime.fromtimestamp(event.get("timestamp", 0) / 1000, UTC)
            lines += [
                LogLine(time=moment, node=self.locate(node, text), rank=rank_of(text), text=text)
                for text in str(event.get("message", "")).rstrip("\n").split("\n")
            ]
        if next_token is None or (next_token == token and not lines):
            return None
        return lines, str(next_token)


def mark_of(line: LogLine, nodes: int | None) -> str:
    """Return the prefix of a line: its node, unless its text names the node or the rank."""
    is_marked = line.rank is not None or line.text.startswith(_LAUNCHER) or nodes == 1
    return "" if is_marked else f"[node {line.node}] "


def new_words(tell: Callable[[str], None]) -> Callable[[Run], None]:
    """Return a function that passes a run's state and reason to `tell` whenever they change."""
    said: list[str] = []

    def seen(run: Run) -> None:
        is_well = not run.reason or run.state.value == "succeeded"  # Batch gives a reason for success, too
        words = f"{run.name}: {run.state}{'' if is_well else f', {run.reason}'}"
        if words not in said[-1:]:
            said.append(words)
            tell(words)

    return seen


def follow_lines(
    found: AnyFound,
    wanted: Wanted,
    *,
    to_end: bool,
    seen: Callable[[Run], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[LogLine]:
    """Yield the job's log lines; with `to_end`, wait for more until the job ends. `seen` gets each Run."""
    platform, target = platform_of(found.target), found.target
    log = LogReader(group=target.log_group, region=target.region, locate=platform.log_locator())
    asking: Asking = partial(outlast, pause=pause) if to_end else lambda asked: asked()
    looks_left = LAST_LOOKS
    while True:
        seen(found.run)
        log.watch(asking(partial(platform.log_streams, found, wanted.node)))
        for page in log.read_new(asking):
            yield from (line for line in page if wanted.has(line))
        looks_left -= found.run.state.is_final
        if not to_end or looks_left <= 0:
            return
        pause(POLL_SECONDS)
        found = asking(partial(refresh, found.run.id, target))


# Finds the launcher's warning that the ranks of a succeeded job seem to have worked alone.
_MAIN_NODE = 0  # its launcher prints the warning among its last lines
_LAST_EVENTS = 100
_LAST_STREAMS = 4
_MARK = "warning: "


def find_warning(found: AnyFound) -> str | None:
    """Return the launcher's warning in the log of a job that succeeded; None if there is none."""
    if found.run.state is not JobState.SUCCEEDED:
        return None
    streams = platform_of(found.target).log_streams(found, _MAIN_NODE)[-_LAST_STREAMS:]
    logs, group = reader("logs", found.target.region), found.target.log_group
    lines = [line for _, each in streams for line in last_lines(logs, group, each, events=_LAST_EVENTS)]
    said = [line.partition(_MARK)[2] for line in lines if WORKED_ALONE in line and _MARK in line]
    return said[-1] if said else None


def with_warning(explanation: Explanation, found: AnyFound) -> Explanation:
    """Return the explanation, with the launcher's warning if the ranks seem to have worked alone."""
    warning = find_warning(found)
    if warning is None:
        return explanation
    return replace(
        explanation,
        sentence=f"{explanation.sentence}, but its {WORKED_ALONE}",
        fix=TO_WORK_TOGETHER,
        evidence=(*explanation.evidence, f"the log: {warning}"),
    )
