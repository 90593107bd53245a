"""All that is decided about one submission, whatever the platform; a dry run prints it."""

from __future__ import annotations

from dataclasses import Field, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.cost import Cost, cost
from slipway.jobs.words.job import Job
from slipway.jobs.words.launch_environment import timeout_seconds
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.targets import Target


class Request(Protocol):
    """Describes what will be sent: a frozen dataclass of the platform's own, which a dry run prints."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def name(self) -> str:
        """Return the name that tells this submission from every other."""


T_co = TypeVar("T_co", bound=Target, covariant=True)
R_co = TypeVar("R_co", bound=Request, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[T_co, R_co]):
    job: Job
    recipe: Recipe
    target: T_co
    request: R_co
    image: str  # what the job runs in, as a person says it
    image_digest: str | None  # None: nothing is pushed under the tag, or AWS did not say, or it has none
    waits_for: tuple[str, ...]  # ids of the jobs that have to succeed first
    attempts: int
    warnings: tuple[str, ...]
    most_seconds: int | None = None  # of all attempts together; None: each may take all of its time

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def ceiling(self) -> Cost:
        """Return the cost if the job takes all of its time."""
        seconds = self.most_seconds or timeout_seconds(self.job, self.target) * self.attempts
        nodes = self.job.nodes * self.job.elements
        return cost(nodes, seconds, instance_type(self.target.instance_type).price)


AnyPrepared = Prepared[Target, Request]
