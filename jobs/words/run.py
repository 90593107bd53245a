"""A run, which is one job on a platform: its states, attempts, cost, marks in its log and why it ended."""

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
    Price,
    find_instance_type,
)
from slipway.jobs.words.catalogue.regional import price_by_term, price_in
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import money, printable

T_co = TypeVar("T_co", bound=Target, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Holds one job as the platform lists it."""

    id: str
    name: str
    is_twin: bool = False  # True: it ended because another machine had sent it; found only by its id
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
    attempts: tuple[Attempt, ...]  # ended attempts
    exit_code: int | None
    image: str | None
    image_digest: str | None
    hours: float | None  # of all attempts, from the start of the job; nodes are billed a little longer
    cost: Cost
    depends_on: tuple[str, ...]  # ids of the jobs that must succeed first


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Generic[T_co]):
    run: Run
    target: T_co
    detail: Mapping[str, Any]  # the platform's own description


AnyFound = Found[Target]


def term_of(target: Target) -> str:
    """Return how the target's nodes are bought, according to its record."""
    if target.is_spot:
        return SPOT
    return CAPACITY_BLOCK if target.capacity_block else ON_DEMAND


def price_of(target: Target) -> Price | None:
    """Return a node's price as the target buys it; if that is unknown, the on-demand price."""
    kind, term = find_instance_type(target.instance_type), term_of(target)
    bought = None if kind is None or term == ON_DEMAND else price_by_term(kind, target.region, term)
    return bought or on_demand_price_of(target)


def on_demand_price_of(target: Target) -> Price | None:
    """Return a node's on-demand price in the target's region, or in another, which the price then names."""
    kind = find_instance_type(target.instance_type)
    return None if kind is None else price_in(kind, target.region) or kind.price


TERM_WORDS: Mapping[str, str] = {
    ON_DEMAND: "on demand",
    SPOT: "on Spot",
    CAPACITY_BLOCK: "in a capacity block",
}


def not_succeeded(depends_on: Iterable[Run]) -> tuple[str, ...]:
    """Return the ids of jobs that a job still waits for, each with the platform's word for its state."""
    return tuple(f"{run.name} ({run.status})" for run in depends_on if run.state is not JobState.SUCCEEDED)


# What a job costs, at the catalogue's dated price of its nodes; None is unknown, never nothing.
UNKNOWN = "unknown"
SECONDS_PER_HOUR = 3600
_DIGITS = 6  # of dollars: a second of one node is not nothing


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
        text = f"{self.node_hours:g} node-hours at {price}, {self.price.region}, {self.price.date}"
        # Spot's price changes by the hour, and a block's is that of the day on which it is bought.
        about = "up to" if self.price.term == ON_DEMAND else "about"
        return f"{about} {money(self.usd)} USD ({text})"


class NoAmount(SlipwayError):
    """The user agreed to something that is not an amount of money."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Holds what a job may cost without asking the user."""

    usd: float = 100.0
    is_unknown_fine: bool = False  # True: a job without a known price is agreed to, too

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usd) and self.usd > 0):
            raise NoAmount(
                f"--confirm-cost: is {self.usd:g}; give dollars above 0, or '{UNKNOWN}'", hint=_HINT
            )

    def covers(self, ceiling: Cost) -> bool:
        return self.is_unknown_fine if ceiling.usd is None else round(ceiling.usd, 2) <= self.usd


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
    usd = round(node_hours * price.usd_per_hour, _DIGITS) if price else None
    return Cost(usd=usd, node_hours=round(node_hours, 4), price=price)


# A job's states in our words, for all platforms. Each platform's STATES maps its own words to these.


class JobState(StrEnum):
    WAITING = "waiting"  # for its turn, for nodes, for another job
    STARTING = "starting"  # it has its nodes; the image is being pulled
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or cancelled, or timed out: the reason says which
    UNKNOWN = "unknown"  # the platform's word is not known to us

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = (JobState.SUCCEEDED, JobState.FAILED)


def translate(states: Mapping[str, JobState], status: str) -> JobState:
    """Translate the platform's word for a state; a new word is UNKNOWN, and is shown unchanged."""
    return states.get(status, JobState.UNKNOWN)


# Which ends of a job are tried again, for job definitions and for jobs that ask for fewer attempts.
# A job's own retry strategy replaces the definition's as a whole (AWS Batch API reference, SubmitJob), so the
# rules travel with it.
# A process that ends with this asks for another attempt; everything else is final.
RETRY_EXIT_CODE = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Describes one rule in AWS's words; a star may be at the end only."""

    action: str
    on_exit_code: str | None = None
    on_status_reason: str | None = None
    on_reason: str | None = None


# The first match wins. Without the last rule, everything else would be retried, even a wrong configuration.
RETRY_RULES = (
    RetryRule(action="RETRY", on_exit_code=str(RETRY_EXIT_CODE)),
    RetryRule(action="RETRY", on_status_reason="Host EC2*"),  # the machine was lost
    # The registry did not answer. Without permission the error is another, CannotPullECRContainerError.
    RetryRule(action="RETRY", on_reason="CannotPullContainerError*"),
    RetryRule(action="EXIT", on_reason="*"),
)


# Why a job is in its state, in a sentence with what to do; and what exit codes mean on every platform. Exit
# codes: signal(7), and containers/runtime/errors.py for our own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    sentence: str
    fix: str  # empty: there is nothing to do
    evidence: tuple[str, ...]  # AWS's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    pattern: str  # searched in AWS's words
    means: str
    fix: str


def in_attempt(number: int | None, allowed: int | None) -> str:
    """Return in which attempt a job failed, as words for a sentence; empty if attempts were not counted."""
    if not number:
        return ""
    of_all = f" of {allowed}" if allowed else ""
    return f" in attempt {number}{of_all}{', the last' if number == allowed else ''}"


SEE_LOG = "look at its log: slipway logs {job}"
_BUILD = "slipway image build {image} --on {target}"
_SMALLER = "set a smaller micro_batch or fewer workers"
_RESUME = "add --checkpoints {kept} to resume from what it saved, unless it had its own"
AGAIN = f"the same command with --again runs it once more; {_RESUME}"
LONGER = f"submit it again with a longer --timeout-hours; {_RESUME}"

# What an exit code means, if AWS says no more than "Essential container in task exited".
EXIT_CODES: Mapping[int, Reason] = {
    code: Reason(pattern=str(code), means=means, fix=fix)
    for code, means, fix in (
        (1, "the program failed", SEE_LOG),
        (2, "the program refused what it was given", SEE_LOG),
        (85, "it asked for another attempt", f"slipway logs {{job}} says why; {AGAIN}"),
        (126, "its command could not be run", _BUILD),
        (127, "its command is not in the image", _BUILD),
        (134, "the program aborted", SEE_LOG),
        (137, "the program was killed, most often because memory ran out", f"{_SMALLER}; {SEE_LOG}"),
        (139, "the program crashed (segmentation fault)", SEE_LOG),
        (143, "the program was told to end", SEE_LOG),
    )
}


# Marks of lines in a job's log, as containers/runtime/observe/log_pump.py and recipes write them.
ERROR = "error: "  # launchers and recipes begin messages for users with it
_RANK = re.compile(r"\[([0-9]{1,6})\] ")
# First line in the log of a job on several nodes: mpi/node/mpirun.py and slurm/node/train.py of
# jobs/platforms.
_RANKS_EACH = re.compile(r"\[run\] [0-9]+ hosts, (?P<ranks>[1-9][0-9]{0,3}) ranks each: ")
# Last line of such a log, from the same files.
_ENDED = re.compile(
    r"\[run\] .*ended with exit code [0-9]+, attempt (?P<number>[0-9]+) of (?P<allowed>[0-9]+)"
)
_MARK = re.compile(r"\[(?P<node>node )?(?P<number>[0-9]{1,6})\] ")


def rank_of(line: str) -> int | None:
    """Return the rank that wrote the line; None if a launcher did."""
    found = _RANK.match(line)
    return int(found[1]) if found else None


def last_error(lines: list[str]) -> str | None:
    """Return the last error, a rank's if there is one: launchers only say that a rank ended."""
    errors = [line for line in lines if ERROR in line]
    of_ranks = [line for line in errors if rank_of(line) is not None]
    return next(reversed(of_ranks or errors), None)


def last_attempt(lines: Iterable[str]) -> tuple[int, int] | None:
    """Return the last attempt of a job on several nodes, and how many attempts it had."""
    found = [match for line in lines if (match := _ENDED.match(line))]
    return (int(found[-1]["number"]), int(found[-1]["allowed"])) if found else None


def locator(*, launchers_per_node: bool) -> Callable[[int, str], int]:
    """Return a function that finds a line's node from its stream's node and its text.

    A launcher marks its lines with its own number: its node's, or its rank's if each rank has a launcher.
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
