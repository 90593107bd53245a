"""One job that a platform ran or runs, read into one form. What the platform leaves out is None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from slipway.jobs.words.catalogue.instances import InstanceType, find_instance_type
from slipway.jobs.words.cost import Cost
from slipway.jobs.words.states import JobState
from slipway.jobs.words.targets import Target

T_co = TypeVar("T_co", bound=Target, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Holds one job as the platform lists it."""

    id: str
    name: str
    is_twin: bool = False  # ended because another machine had sent the same one; only its id means it


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


def not_succeeded(depends_on: Iterable[Run]) -> tuple[str, ...]:
    """Return those that a job still waits for, each with the platform's word for its state."""
    return tuple(f"{run.name} ({run.status})" for run in depends_on if run.state is not JobState.SUCCEEDED)
