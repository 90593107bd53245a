"""Decides everything about a job and changes nothing.

A dry run ends here, so only what deciding needs is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slipway.containers.runtime.contract import variables
from slipway.jobs.cloud.aws import is_in_yard
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.platforms.platform import AnyPrepared, platform_of, takes_images
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.given import checked
from slipway.jobs.words.images.containers import locked_torch, read_lock
from slipway.jobs.words.installation import find_containers, install_line, missing_packages
from slipway.jobs.words.job import DoesNotFit, Job, refuse_unreachable_inputs, unreadable_inputs
from slipway.jobs.words.launch_environment import launch_environment
from slipway.jobs.words.recipes import (
    Recipe,
    find_recipe,
    idle_accelerators,
    refuse_array,
    refuse_hardware,
    refuse_ranks,
    refuse_settings,
    refuse_torch,
)
from slipway.jobs.words.targets import BatchTarget, Target


@checked
def prepare(job: Job, on: str, region: str | None = None) -> AnyPrepared:
    recipe = find_recipe(job.recipe)
    refuse_settings(recipe, job.settings)
    target = find_target_by_name(on, region)
    hardware = instance_type(target.instance_type)
    refuse_hardware(recipe, hardware)
    if job.array is not None:
        if not platform_of(target).TAKES_ARRAYS:
            raise DoesNotFit(
                f"--array is {job.array}, and cluster '{target.name}' runs no arrays of jobs; "
                "only Slurm does",
                hint="submit to a cluster of Slurm (slipway cluster targets), or leave out --array",
            )
        refuse_array(recipe, job.settings)
    if job.image is not None:
        refuse_image(job, target)
    else:
        # Refuse a layout that is not proved on the PyTorch of the cluster's image. With an image of the job's
        # own, ranks check it.
        torch = locked_torch(find_containers(), _image_of(target))
        refuse_torch(recipe, job.settings, hardware, torch)
    refuse_unreachable_inputs(job, target)
    job, waits_for = _with_other_jobs(job, recipe, target)
    ranks = int(launch_environment(job, target, job.name)[variables.PROCESSES_PER_NODE])
    refuse_ranks(recipe, job.settings, ranks * job.nodes, ranks)
    prepared = platform_of(target).prepare(job, recipe, target, waits_for)
    known = (
        *unreadable_inputs(job, target),
        *idle_accelerators(recipe, hardware, job.nodes),
        *_missing_library(job, recipe, target),
    )
    lacking = lacking_here(job) if is_in_yard() else ()
    return replace(prepared, warnings=(*prepared.warnings, *known, *lacking))


def lacking_here(job: Job) -> Iterator[str]:
    """Warn if the yard's ranks would lack a package: they run in this machine's environment."""
    engine = job.settings.get("engine", "")
    for extra in ("training", engine) if engine == "deepspeed" else ("training",):
        if missing := missing_packages(extra):
            yield (
                f"in the yard ranks run in the environment of `slipway yard up`; here it lacks "
                f"{', '.join(missing)}: {install_line(extra)}"
            )


def _missing_library(job: Job, recipe: Recipe, target: Target) -> Iterator[str]:
    """Warn if the lock of the cluster's image does not name a library that the recipe trains with."""
    library, image = getattr(recipe.config, "LIBRARY", None), _image_of(target)
    if library is None or job.image is not None:
        return
    lock = read_lock(find_containers(), image)
    if lock is None or library not in lock.image:
        yield (
            f"image '{image}' is not known to hold {library}, and without it ranks of {recipe.name} end at "
            'once, with exit code 2; declare the cluster with image="gpu", or name an image that has it '
            "with --image"
        )


def _image_of(target: Target) -> str:
    return target.image if isinstance(target, BatchTarget) else target.machine_image


def refuse_image(job: Job, target: Target) -> None:
    """Refuse an image if the nodes run no containers."""
    if not takes_images(target):
        raise DoesNotFit(
            f"--image is {job.image}, and the nodes of '{target.name}' run no containers: jobs find what "
            "their AMI holds",
            hint="slipway run --requirements FILE adds packages; for more, use an AMI of your own, or "
            "a cluster of AWS Batch or SageMaker",
        )


def _with_other_jobs(job: Job, recipe: Recipe, target: Target) -> tuple[Job, tuple[str, ...]]:
    """Return the job with the whole names of other jobs in its settings, and the ids of jobs it waits for."""
    if not (job.depends_on or recipe.job_settings):
        return job, ()
    from slipway.jobs.submit.find import find_dependencies, with_whole_names

    job = with_whole_names(job, recipe.job_settings, target)
    return job, find_dependencies(job.depends_on, target) if job.depends_on else ()
