"""What commands ask of whatever runs jobs. A new kind of target is a module like the others, and a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from slipway.jobs.core.job import Job
from slipway.jobs.core.targets import Target

if TYPE_CHECKING:
    from slipway.jobs.platforms.batch.explain import Explanation
    from slipway.jobs.platforms.prepared import Prepared
    from slipway.jobs.platforms.sending import Waiting
    from slipway.jobs.recipes import Recipe
    from slipway.jobs.runs.find import Found, Run

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of what the platform lists."""

    id: str
    name: str
    is_twin: bool = False  # ended because another machine had sent the same one; only its id means it


class Platform(Protocol):
    """The functions of one of those modules. A target is always of its own kind."""

    SERVICE: str  # in AWS's words

    def prepare(self, job: Job, recipe: Recipe, target: Any) -> Prepared: ...

    def repeat(self, prepared: Prepared, job: Job) -> Prepared:
        """The same as another job."""

    def refuse_unready(self, prepared: Prepared) -> None:
        """What can be known to be in vain before anything is asked."""

    def make_ready(self, prepared: Prepared, say: Say) -> Prepared:
        """See to it that it can run now, or refuse; the last step before it is sent."""

    def send(self, prepared: Prepared) -> str: ...

    def find_job_id(self, name: str, target: Any) -> str | None: ...

    def is_known(self, job_id: str, target: Any) -> bool: ...

    def keep_first(self, sent: str, name: str, target: Any, waiting: Waiting, say: Say) -> str: ...

    def list_jobs(self, target: Any) -> list[Listed]: ...

    def list_runs(self, target: Any) -> list[Run]: ...

    def refresh(self, job_id: str, target: Any) -> Found | None: ...

    def log_streams(self, found: Found, node: int | None) -> list[tuple[int, str]]:
        """Each with its node."""

    def log_locator(self) -> Callable[[int, str], int]:
        """Of one reading: the node that said a line, from its stream's node and its text."""

    def cancel(self, found: Found, reason: str) -> None: ...

    def explain(self, found: Found) -> Explanation: ...

    def node_rows(self, target: Any) -> Sequence[Mapping[str, object]] | None:
        """The machines and whether each is ready; None where machines start with a job."""


PLATFORMS: Mapping[str, str] = {
    "batch": "slipway.jobs.platforms.batch.platform",
    "mpi": "slipway.jobs.platforms.mpi.platform",
}


def platform_of(target: Target) -> Platform:
    return cast(Platform, import_module(PLATFORMS[target.kind]))
