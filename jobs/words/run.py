"""One job that a platform ran or runs: its states, attempts, cost, marks in its log and why it ended so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from slipway.jobs.words.catalogue.instances import (
    CAPACITY_BLOCK,
    ON_DEMAND,
    SPOT,
    InstanceType,
    Price,
    find_instance_type,
)
from slipway.jobs.words.catalogue.regional import price_by_term, price_in
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

T_co = TypeVar("T_co", bound=Target, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Holds one job as the platform lists it."""

    id: str
    name: str
    is_twin: bool = False  # ended because another machine had sent the same one; only its id means it
    created_at: datetime | None = None  # None: the list does not say it


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    started_at: datetime | None
    stopped_at: datetime | None
    exit_code: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    name: str
    target: str
    region: str
    state: JobState
    status: str  # the platform's own word
    reason: str | None
    recipe: str | None
    nodes: int | None
    instance_type: str
    created_at: datetime | None
    started_at: datetime | None
    stopped_at: datetime | None
    attempts: tuple[Attempt, ...]  # those that ended
    exit_code: int | None
    image: str | None
    image_digest: str | None
    hours: float | None  # of all attempts, from the start of the job; nodes are billed a little longer
    cost: Cost
    depends_on: tuple[str, ...]  # ids of the jobs that have to succeed first


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T_co]):
    run: Run
    target: T_co
    detail: Mapping[str, Any]  # as the platform gave it


AnyFound = Found[Target]


def catalogued(target: Target) -> InstanceType | None:
    """Return the target's type; None if this laptop's catalogue does not have it."""
    return find_instance_type(target.instance_type)


def term_of(target: Target) -> str:
    """Tell how the target's nodes are bought, as far as its record says so."""
    if getattr(target, "is_spot", False):
        return SPOT
    return CAPACITY_BLOCK if getattr(target, "capacity_block", None) else ON_DEMAND


def price_of(target: Target) -> Price | None:
    """Return a node's price as the target buys it; where nobody wrote that down, the price on demand."""
    kind, term = catalogued(target), term_of(target)
    bought = None if kind is None or term == ON_DEMAND else price_by_term(kind, target.region, term)
    return bought or on_demand_price_of(target)


def on_demand_price_of(target: Target) -> Price | None:
    """Return a node's price on demand in the target's region, else another's, which the price then names."""
    kind = catalogued(target)
    return None if kind is None else price_in(kind, target.region) or kind.price


TERM_WORDS: Mapping[str, str] = {
    ON_DEMAND: "on demand",
    SPOT: "on Spot",
    CAPACITY_BLOCK: "in a capacity block",
}


def not_succeeded(depends_on: Iterable[Run]) -> tuple[str, ...]:
    """Return those that a job still waits for, each with the platform's word for its state."""
    return tuple(f"{run.name} ({run.status})" for run in depends_on if run.state is not JobState.SUCCEEDED)


# What a job costs, by the catalogue's dated price of its nodes; None is unknown, never nothing.
UNKNOWN = "unknown"
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    usd: float | None
    node_hours: float | None
    price: Price | None

    @property
    def words(self) -> str:
        if self.usd is None or self.price is None:
            hours = UNKNOWN if self.node_hours is None else f"{self.node_hours:g}"
            return f"an amount that is not known ({hours} node-hours at no known price)"
        price = f"{self.price.usd_per_hour} USD {TERM_WORDS[self.price.term]}"
        said = f"{self.node_hours:g} node-hours at {price}, {self.price.region}, {self.price.date}"
        # Spot's price changes by the hour, and a block's is that of the day on which it is bought.
        return f"{'up to' if self.price.term == ON_DEMAND else 'about'} {self.usd:.2f} USD ({said})"


class NoAmount(SlipwayError):
    """The user agreed to something that is not an amount of money."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Holds what a job may cost without asking the user."""

    usd: float = 100.0
    is_unknown_fine: bool = False  # a job without a known price

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usd) and self.usd > 0):
            raise NoAmount(
                f"--confirm-cost: is {self.usd:g}; give dollars above 0, or '{UNKNOWN}'", hint=_HINT
            )

    def covers(self, ceiling: Cost) -> bool:
        return self.is_unknown_fine if ceiling.usd is None else ceiling.usd <= self.usd


AGREED_UNSAID = Agreed()
_HINT = "say what the job may cost at most"


def parse_agreed(text: str) -> Agreed:
    """Parse an amount in USD, or the word 'unknown' for jobs without a known price."""
    if text == UNKNOWN:
        return Agreed(is_unknown_fine=True)
    try:
        return Agreed(usd=float(text))
    except ValueError:
        raise NoAmount(
            f"--confirm-cost: '{printable(text)}' is not an amount; give dollars above 0, or '{UNKNOWN}'",
            hint=_HINT,
        ) from None


def cost(nodes: int | None, seconds: float | None, price: Price | None) -> Cost:
    if nodes is None or seconds is None:
        return Cost(usd=None, node_hours=None, price=price)
    node_hours = nodes * seconds / SECONDS_PER_HOUR
    usd = round(node_hours * price.usd_per_hour, 2) if price else None
    return Cost(usd=usd, node_hours=round(node_hours, 4), price=price)


# The states of a job, in our words whatever the platform. Each backend's STATES maps its own onto these.


class JobState(StrEnum):
    WAITING = "waiting"  # for its turn, for nodes, for another job
    STARTING = "starting"  # it has its nodes; the image is pulled
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # cancelled and timed out too: the reason says which
    UNKNOWN = "unknown"  # the platform has a word that we do not know

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = (JobState.SUCCEEDED, JobState.FAILED)


def translate(states: Mapping[str, JobState], status: str) -> JobState:
    """Translate the platform's word for a state; a new word is UNKNOWN, and shown as it is."""
    return states.get(status, JobState.UNKNOWN)


# Which ends of a job are tried again, for job definitions and for jobs that ask for fewer attempts.
# A job's own retry strategy replaces the definition's as a whole (AWS Batch API reference, SubmitJob), so the
# rules travel with it.
# A process that ends with this asks for another attempt; everything else is final.
RETRY_EXIT_CODE = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Describes one rule in AWS's words; a star may stand at the end only."""

    action: str
    on_exit_code: str | None = None
    on_status_reason: str | None = None
    on_reason: str | None = None


# In order; without the last rule whatever matches none is tried again, a wrong configuration included.
RETRY_RULES = (
    RetryRule(action="RETRY", on_exit_code=str(RETRY_EXIT_CODE)),
    RetryRule(action="RETRY", on_status_reason="Host EC2*"),  # the machine went away
    # A registry that did not answer. What a role may not pull has another name, CannotPullECRContainerError.
    RetryRule(action="RETRY", on_reason="CannotPullContainerError*"),
    RetryRule(action="EXIT", on_reason="*"),
)


# Why a job is as it is, in a sentence and with what to do; and what exit codes mean on every platform.
# Exit codes: signal(7), and containers/runtime/errors.py for our own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    sentence: str
    fix: str  # empty where there is nothing to do
    evidence: tuple[str, ...]  # AWS's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    pattern: str  # searched in what AWS says
    means: str
    fix: str


def in_attempt(number: int | None, allowed: int | None) -> str:
    """Return in which attempt a job failed, as far as it was counted; empty where it was not."""
    if not number:
        return ""
    of_all = f" of {allowed}" if allowed else ""
    return f" in attempt {number}{of_all}{', the last' if number == allowed else ''}"


_LOGS = "look at its log: slipway logs {job}"

# What a process says by its exit code, where AWS says no more than "Essential container in task exited".
EXIT_CODES: Mapping[int, Reason] = {
    1: Reason(pattern="1", means="the program failed", fix=_LOGS),
    2: Reason(pattern="2", means="the program refused what it was given", fix=_LOGS),
    85: Reason(
        pattern="85",
        means="it asked for another attempt",
        fix="slipway logs {job} says why; the same command with --again --checkpoints … resumes",
    ),
    126: Reason(
        pattern="126", means="its command could not be run", fix="slipway image build {image} --on {target}"
    ),
    127: Reason(
        pattern="127",
        means="its command is not in the image",
        fix="slipway image build {image} --on {target}",
    ),
    134: Reason(pattern="134", means="the program aborted", fix=_LOGS),
    137: Reason(
        pattern="137",
        means="the program was killed, most often because memory ran out",
        fix="set a smaller micro_batch or fewer workers; look at its log: slipway logs {job}",
    ),
    139: Reason(pattern="139", means="the program crashed (segmentation fault)", fix=_LOGS),
    143: Reason(pattern="143", means="the program was told to end", fix=_LOGS),
}


# The marks of lines in a job's log, as containers/runtime/observe/log_pump.py and recipes write them.
ERROR = "error: "  # launchers and recipes begin with it what a person should read
_RANK = re.compile(r"\[([0-9]{1,6})\] ")
# As a job on several nodes begins its log: mpi/node/mpirun.py and slurm/node/train.py of jobs/platforms.
_RANKS_EACH = re.compile(r"\[run\] [0-9]+ hosts, (?P<ranks>[1-9][0-9]{0,3}) ranks each: ")
# As such a job ends its log, in the same files.
_ENDED = re.compile(
    r"\[run\] .*ended with exit code [0-9]+, attempt (?P<number>[0-9]+) of (?P<allowed>[0-9]+)"
)
_MARK = re.compile(r"\[(?P<node>node )?(?P<number>[0-9]{1,6})\] ")


def rank_of(line: str) -> int | None:
    """Return the rank that wrote the line; None if a launcher did."""
    found = _RANK.match(line)
    return int(found[1]) if found else None


def last_error(lines: list[str]) -> str | None:
    """Return the last error, that of a rank if there is one: launchers only say that a rank ended."""
    errors = [line for line in lines if ERROR in line]
    of_ranks = [line for line in errors if rank_of(line) is not None]
    return next(reversed(of_ranks or errors), None)


def last_attempt(lines: Iterable[str]) -> tuple[int, int] | None:
    """Return the attempt with which a job on several nodes ended, and how many it had."""
    found = [match for line in lines if (match := _ENDED.match(line))]
    return (int(found[-1]["number"]), int(found[-1]["allowed"])) if found else None


def locator(*, launchers_per_node: bool) -> Callable[[int, str], int]:
    """Return a function that tells the node of a line from its stream's node and its text.

    A launcher marks its lines with its own number: that of its node, or of its rank where each rank has one.
    """
    ranks_each = [1]

    def locate(node: int, text: str) -> int:
        if begins := _RANKS_EACH.match(text):
            ranks_each[0] = int(begins["ranks"])
        mark = _MARK.match(text)
        if mark is None:
            return node
        is_node = launchers_per_node and mark["node"] is not None
        return int(mark["number"]) // (1 if is_node else ranks_each[0])

    return locate
