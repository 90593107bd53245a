"""A plan's own commands on the clusters that it chose: refused in time, and completed for each."""

from __future__ import annotations

from dataclasses import replace

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.deployed import find_target_by_name
from slipway.jobs.clusters.images.project_images import image_at
from slipway.jobs.code.command_job import RECIPE, refuse_uninstallable
from slipway.jobs.code.kept_archives import read_kept, with_sent_source, with_source_at
from slipway.jobs.plan.run.clusters import NoTarget, as_job
from slipway.jobs.plan.search.model import Plan
from slipway.jobs.platforms.registry import platform_of
from slipway.jobs.submit.preparing import prepare
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import Target


def refuse_unfit_commands(plan: Plan) -> None:
    """Refuse what the cluster of a command would refuse when its turn comes, before anything is submitted."""
    jobs = {job.name: job for job in plan.jobs}
    for assignment in plan.assignments:
        job, pool = jobs[assignment.job], plan.pools[assignment.pool]
        if job.job is None or job.job.recipe != RECIPE:
            continue
        target = find_target_by_name(pool.cluster, None)
        try:
            _refuse_unfit(as_job(job, assignment, pool, target, "plan", attempt=1), target)
        except SlipwayError as error:
            raise NoTarget(f"job '{job.name}' of the plan: {error.message}", hint=error.hint) from None


def completed(job: Job, target: Target) -> Job:
    """Send the folder of a command to the cluster that the plan chose, and name its image there."""
    return with_sent_source(_with_image(job, target), target, aws.client("s3", target.region))


def _refuse_unfit(job: Job, target: Target) -> None:
    if requirements := job.settings.get("requirements"):
        refuse_uninstallable(requirements, read_kept(job, requirements), target)
    here = with_source_at(_with_image(job, target), target)
    platform_of(target).refuse_unready(prepare(here, target.name, target.region))


def _with_image(job: Job, target: Target) -> Job:
    return job if job.image is None else replace(job, image=image_at(job.image, target))
