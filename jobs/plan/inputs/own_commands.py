"""Read a user's own command as a job of a sweep: it cannot be estimated, so the file gives its times.

[[jobs]]
name = "vision"
command = ["python", "train.py"]
folder = "vision"                # next to the file; it is packed when the plan is made
modes = [{ nodes = 1, seconds = 7200 }, { nodes = 2, seconds = 4000 }]

The other FIELDS mean the same as the options of `slipway run`. The plan decides the nodes and time limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.jobs.code.folder import DEFAULT_LIMIT_MB, LARGEST_LIMIT_MB
from slipway.jobs.plan.inputs.files import Fields
from slipway.jobs.plan.search.model import Mode, PlanJob, Pool
from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import NoProject, find_project
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe, refuse_settings

if TYPE_CHECKING:
    from slipway.jobs.code.command_job import OwnCommand

FIELDS = (
    "name",
    "command",
    "folder",
    "modes",
    "per_node",
    "processes_per_node",
    "requirements",
    "image",
    "limit",
    "include_secrets",
    "attempts",
    "data",
    "checkpoints",
    "deadline",
    "priority",
    "depends_on",
)
_MODE = ("nodes", "seconds", "type")
_RUN_NO_CONTAINERS = ("mpi", "slurm")


def own_command_job(found: Fields, beside: Path, pools: Sequence[Pool], kinds: Mapping[str, str]) -> PlanJob:
    """Read the job and pack its folder as it is now; `kinds` maps declared clusters to their kinds."""
    for place in found.unknown(FIELDS):
        raise CannotPlan(
            f"{place} is no field of a command in a sweep", hint=f"there are {', '.join(FIELDS)}"
        )
    ways = tuple(_modes(found, pools))
    types = {mode.type for mode in ways}
    for pool in pools if found.has("image") else ():
        if pool.type in types and kinds.get(pool.cluster) in _RUN_NO_CONTAINERS:  # the plan might choose it
            raise CannotPlan(
                f"{found.where} has an image, and the nodes of pool '{pool.cluster}' run no containers",
                hint="take the pool out, or give each mode a type that other pools have; "
                "requirements adds packages everywhere",
            )
    try:
        job = _job(found, beside)
    except CannotPlan:
        raise
    except SlipwayError as error:
        raise CannotPlan(f"{found.where}: {error.message}", hint=error.hint) from None
    return PlanJob(
        name=job.name,
        modes=ways,
        job=job,
        depends_on=found.texts("depends_on"),
        deadline=found.maybe(found.seconds, "deadline"),
        priority=found.whole("priority", 0),
    )


def _job(found: Fields, beside: Path) -> Job:
    from slipway.jobs.clusters.images.builds import planned_image
    from slipway.jobs.code.command_job import RECIPE, OwnCommand, command_settings

    command = OwnCommand(
        words=found.texts("command"),
        is_per_node=found.truth("per_node", False),
        requirements=found.maybe(found.text, "requirements"),
    )
    job = Job(
        name=found.text("name"),
        recipe=RECIPE,
        nodes=1,
        settings=command_settings(command, _kept(found, beside, command)),
        data=found.maybe(found.text, "data"),
        checkpoints=found.maybe(found.text, "checkpoints"),
        processes_per_node=command.processes(found.maybe(found.whole, "processes_per_node")),
        attempts=found.maybe(found.whole, "attempts"),
        image=planned_image(found.text("image")) if found.has("image") else None,
    )
    refuse_settings(find_recipe(RECIPE), job.settings)
    return job


def _kept(found: Fields, beside: Path, command: OwnCommand) -> str:
    """Pack the folder and return where the archive is kept until a cluster is chosen."""
    from slipway.jobs.code.command_job import refuse_left_behind, refuse_mistakes
    from slipway.jobs.code.folder import read_folder
    from slipway.jobs.code.packing import keep_archive

    limit_mb = found.whole("limit", DEFAULT_LIMIT_MB)
    if not 1 <= limit_mb <= LARGEST_LIMIT_MB:
        raise found.refuse("limit", f"1 to {LARGEST_LIMIT_MB} (MB)")
    place, bounds = beside / found.text("folder", "."), [beside.resolve()]
    with suppress(NoProject):
        project = find_project(beside.resolve()).folder
        bounds += [project] if bounds[0].is_relative_to(project) else []
    # Only the plan's folder or project: somebody else's plan cannot send other files of this machine.
    if not any(place.resolve().is_relative_to(bound) for bound in bounds):
        raise found.refuse("folder", f"a folder in {bounds[-1]}")
    include_secrets = found.truth("include_secrets", False)
    folder = read_folder(place, limit_mb=limit_mb, include_secrets=include_secrets)
    refuse_mistakes(command, folder)
    if command.requirements is not None:
        refuse_left_behind(command.requirements, folder)
    return str(keep_archive(folder))


def _modes(found: Fields, pools: Sequence[Pool]) -> Iterator[Mode]:
    """Yield a mode for each instance type that has a pool with enough nodes."""
    seen: set[tuple[str, int]] = set()
    for given in found.objects("modes"):
        for place in given.unknown(_MODE):
            raise CannotPlan(f"{place} is no field of a mode", hint=f"there are {', '.join(_MODE)}")
        nodes, fits = given.whole("nodes"), 0
        for pool in pools:
            if nodes <= pool.nodes and given.text("type", pool.type) == pool.type:
                fits += 1
                kind = (pool.type, nodes * pool.devices_per_node)
                if kind not in seen:
                    seen.add(kind)
                    yield Mode(
                        technique="given", type=kind[0], devices=kind[1], seconds=given.seconds("seconds")
                    )
        if not fits:
            raise CannotPlan(
                f"{given.where} asks for {nodes} nodes, and no pool has them",
                hint="add nodes to a pool; an MPI cluster counts as one node in a plan",
            )
