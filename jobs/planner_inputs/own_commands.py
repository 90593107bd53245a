"""A user's own command as a job of a sweep: nobody can estimate it, so its file says how long it takes.

[[jobs]]
name = "vision"
command = ["python", "train.py"]
folder = "vision"                # beside the file; it is packed when the plan is made
modes = [{ nodes = 1, seconds = 7200 }, { nodes = 2, seconds = 4000 }]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from slipway.jobs.core.job import InvalidJob, Job
from slipway.jobs.planner.model import Mode, PlanJob, Pool
from slipway.jobs.planner.refusals import CannotPlan
from slipway.jobs.planner_inputs.fields import Fields
from slipway.jobs.recipes import find_recipe, refuse_settings

FIELDS = (
    "name",
    "command",
    "folder",
    "modes",
    "per_node",
    "data",
    "checkpoints",
    "deadline",
    "priority",
    "depends_on",
)
_MODE = ("nodes", "seconds", "type")


def own_command_job(found: Fields, beside: Path, pools: Sequence[Pool]) -> PlanJob:
    """Read the job and pack its folder, as it is now."""
    from slipway.jobs.project_source.command_job import RECIPE, OwnCommand, command_settings
    from slipway.jobs.project_source.folder import read_folder
    from slipway.jobs.project_source.kept_archives import keep_archive

    for place in found.unknown(FIELDS):
        raise CannotPlan(
            f"{place} is no field of a command in a sweep", hint=f"there are {', '.join(FIELDS)}"
        )
    command = OwnCommand(words=found.texts("command"), is_per_node=found.truth("per_node", False))
    ways = tuple(_modes(found, pools))
    archive = keep_archive(read_folder(beside / found.text("folder", ".")))
    settings = command_settings(command, str(archive))
    try:
        refuse_settings(find_recipe(RECIPE), settings)
        job = Job(
            name=found.text("name"),
            recipe=RECIPE,
            nodes=1,
            settings=settings,
            data=found.text("data") if found.has("data") else None,
            checkpoints=found.text("checkpoints") if found.has("checkpoints") else None,
            processes_per_node=1 if command.is_per_node else None,
        )
    except InvalidJob as error:
        raise CannotPlan(f"{found.where}: {error.message}", hint=error.hint) from None
    return PlanJob(
        name=job.name,
        modes=ways,
        job=job,
        depends_on=found.texts("depends_on"),
        deadline=found.seconds("deadline") if found.has("deadline") else None,
        priority=found.whole("priority", 0),
    )


def _modes(found: Fields, pools: Sequence[Pool]) -> Iterator[Mode]:
    """Yield a mode for each type of pool that has the nodes."""
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
