"""The questions that every platform answers for commands, and those that only some answer.

A platform is a module, jobs/platforms/<kind>/platform.py, with these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.platforms.sending import Waiting
from slipway.jobs.words.catalogue.instances import ON_DEMAND, Price
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.launch_environment import timeout_seconds
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.run import (
    Cost,
    Explanation,
    Found,
    Listed,
    Run,
    cost,
    on_demand_price_of,
    price_of,
)
from slipway.jobs.words.targets import SlurmTarget, Target
from slipway.jobs.words.text import Say

# Everything that is decided about one submission, for any platform; a dry run prints it.


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
    build: Callable[[Job], R_co]  # builds the request of the job again, for a repeat
    image: str  # what the job runs in, for users
    image_digest: str | None  # None: nothing is pushed under the tag, AWS did not say, or no image is used
    waits_for: tuple[str, ...]  # ids of the jobs that must succeed first
    attempts: int
    warnings: tuple[str, ...]
    most_seconds: int | None = None  # of all attempts together; None: each may take the whole timeout

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def ceiling(self) -> Cost:
        """Return the on-demand cost if the job takes all of its time; Spot's is never above it."""
        return self._cost(on_demand_price_of(self.target) or price_of(self.target))

    @property
    def bought(self) -> str | None:
        """Return the approximate cost at the price at which the target buys nodes, if not on demand."""
        price = price_of(self.target)
        return None if price is None or price.term == ON_DEMAND else self._cost(price).words

    def _cost(self, price: Price | None) -> Cost:
        seconds = self.most_seconds or timeout_seconds(self.job, self.target) * self.attempts
        nodes = self.job.nodes * self.job.elements
        return cost(nodes, seconds, price)

    def repeated(self, number: int) -> Self:
        """Prepare the same submission once more."""
        job = replace(self.job, repeat=number)
        return replace(self, job=job, request=self.build(job))


MissingMachine: TypeAlias = tuple[str, str] | Unanswered  # why it does not run in AWS's words, and the remedy
AnyPrepared = Prepared[Target, Request]
AnyPlatform: TypeAlias = "Platform[Target, Request]"


# The platform of each kind of target. A new kind is a folder like the others, and a row here.
PLATFORMS: Mapping[str, str] = {
    "batch": "slipway.jobs.platforms.batch.platform",
    "mpi": "slipway.jobs.platforms.mpi.platform",
    "sagemaker": "slipway.jobs.platforms.sagemaker.platform",
    "slurm": "slipway.jobs.platforms.slurm.platform",
}


def platform_of(target: T) -> Platform[T, Request]:
    return cast("Platform[T, Request]", _module_of(target))


def nodes_of(target: T) -> HasNodes[T] | None:
    """Return the platform if it can list machines; None if machines start with a job."""
    platform = _module_of(target)
    return platform if isinstance(platform, HasNodes) else None


def missing_machines_of(target: Target) -> Sequence[MissingMachine]:
    """List machines that AWS does not start; none if machines start with a job."""
    platform = _module_of(target)
    return platform.missing_machines(target) if isinstance(platform, MayMissMachines) else ()


def machine_warnings(target: Target) -> Iterator[str]:
    """Yield a line on each machine that AWS does not start, and on each question that it does not answer."""
    for each in missing_machines_of(target):
        if isinstance(each, Unanswered):
            what, fix = f"whether its machines start is not known: {each.words}", each.remedy("read")
        else:
            what, fix = each
        yield f"{what}; {fix}" if fix else what


def waiting_of(target: T) -> HasDependencies[T] | None:
    """Return the platform if its jobs can wait for others; else None."""
    platform = _module_of(target)
    return platform if isinstance(platform, HasDependencies) else None


def entrance_of(target: T) -> HasEntrance[T] | None:
    """Return the platform if users can enter its machines; else None."""
    platform = _module_of(target)
    return platform if isinstance(platform, HasEntrance) else None


def takes_images(target: Target) -> bool:
    """Return True if a job may run in a container image of its own."""
    runs_none = isinstance(target, SlurmTarget) and target.container is None
    return platform_of(target).TAKES_IMAGES and not runs_none


def _module_of(target: Target) -> ModuleType:
    return import_module(PLATFORMS[target.kind])


T = TypeVar("T", bound=Target)
R = TypeVar("R", bound=Request)
T_contra = TypeVar("T_contra", bound=Target, contravariant=True)


class Platform(Protocol[T, R]):
    """Lists the questions that every kind of target answers."""

    SERVICE: str  # AWS's name of it
    TAKES_ARRAYS: bool  # True: one job may be an array of jobs, which divide its work
    TAKES_IMAGES: bool  # True: jobs run in container images, and may name their own

    def prepare(self, job: Job, recipe: Recipe, target: T, waits_for: tuple[str, ...]) -> Prepared[T, R]:
        """Decide everything about a submission. `waits_for` are ids of jobs that must succeed first."""

    def refuse_unready(self, prepared: Prepared[T, R]) -> None:
        """Refuse a submission that is known to fail, before anything is asked."""

    def make_ready(self, prepared: Prepared[T, R], say: Say) -> str | None:
        """Make sure that the job can run now, or refuse; this is the last step before it is sent.

        Return the instance that will receive the request, or None if the service does. Nothing else may be
        added to a request after its cost was confirmed.
        """

    def send(self, prepared: Prepared[T, R], taker: str | None) -> str:
        """Send the request to the instance that `make_ready` named, and return the job's id."""

    def find_job_id(self, name: str, target: T) -> str | None:
        """Return the id of the job with exactly this name."""

    def is_known(self, job_id: str, target: T) -> bool:
        """Return True if the platform has the job, though its list by name may not show it yet."""

    def list_jobs(self, target: T) -> list[Listed]:
        """List id and name of every job that the platform still lists."""

    def list_runs(self, target: T) -> list[Run]:
        """Read every job that the platform still lists."""

    def unfinished_runs(self, target: T) -> list[Run]:
        """Read the unfinished jobs; none if their queue or machines were deleted."""

    def refresh(self, job_id: str, target: T) -> Found[T] | None:
        """Read one job again; None if the platform does not know it."""

    def log_streams(self, found: Found[T], node: int | None) -> list[tuple[int, str]]:
        """List the log streams of one node or of all, each with its node."""

    def log_locator(self) -> Callable[[int, str], int]:
        """Return a function that finds a line's node from its stream's node and its text."""

    def cancel(self, found: Found[T], reason: str) -> None:
        """Ask every process of the job to end."""

    def explain(self, found: Found[T]) -> Explanation:
        """Say why the job is not running, or why it failed."""


@runtime_checkable
class HasNodes(Protocol[T_contra]):
    """Lists the questions to a platform whose machines exist before a job does."""

    def node_rows(self, target: T_contra) -> Sequence[Mapping[str, object]]:
        """List the machines, and whether each is ready."""


@runtime_checkable
class MayMissMachines(Protocol[T_contra]):
    """Lists the questions to a platform whose machines AWS may refuse to start."""

    def missing_machines(self, target: T_contra) -> Sequence[MissingMachine]:
        """List machines that do not run, and questions about them that AWS did not answer."""


@runtime_checkable
class HasDependencies(Protocol[T_contra]):
    """Lists the questions to a platform on which a job can wait for another."""

    def find_dependencies_of(self, run: Run, target: T_contra) -> list[Run]:
        """Return the jobs that this one waits for, if the platform still lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """Hold how a user reaches a job: the instance of each node, and what to do there."""

    instances: Sequence[str | None]  # None: unknown
    note: str = ""


@runtime_checkable
class HasEntrance(Protocol[T_contra]):
    """Lists the questions to a platform whose machines users can enter, because they own them."""

    ENTERED_AS: str | None  # the user that its sshd accepts; None: the usual user of the machine's AMI

    def way_into(self, run: Run, target: T_contra) -> WayIn:
        """Return how to reach a running job."""


@runtime_checkable
class MayHaveTwins(Protocol[T_contra]):
    """Lists the questions to a platform that may accept two jobs of one name in the same instant."""

    def keep_first(self, sent: str, name: str, target: T_contra, waiting: Waiting, say: Say) -> str:
        """End every job of this name but the first, and return its id."""


@runtime_checkable
class MayClose(Protocol[T_contra]):
    """Lists the questions to a platform that can refuse new jobs for a while."""

    def close(self, target: T_contra) -> None:
        """Refuse new jobs; where we may not say so, all stays as it is."""

    def reopen(self, target: T_contra) -> None:
        """Take jobs again."""


@contextmanager
def closed(target: Target) -> Iterator[None]:
    """Let nobody submit meanwhile, where the platform can refuse jobs; open it again after an error."""
    platform = _module_of(target)
    if not isinstance(platform, MayClose):
        yield
        return
    platform.close(target)
    try:
        yield
    except BaseException:
        platform.reopen(target)
        raise


class StillRuns(SlipwayError):
    """A job of the cluster still runs, so nothing was deleted."""


def refuse_running(target: Target) -> None:
    """Refuse while a job of the cluster is unfinished: it would lose its machines, files and queue."""
    left = platform_of(target).unfinished_runs(target)
    if left:
        name, others = left[0].name, f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise StillRuns(
            f"{name}{others} of {target.name} {'have' if others else 'has'} not ended",
            hint=f"wait for it: slipway logs {name} --follow; or end it: slipway cancel {name}",
        )
