"""Answers commands' questions about a Slurm cluster, by its login node. request.py builds the requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.platforms.code_bundle import own_containers, pack, upload
from slipway.jobs.platforms.on_clusters import send_command
from slipway.jobs.platforms.platform import MissingMachine, Prepared, WayIn
from slipway.jobs.platforms.reasons import machine_reason
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.platforms.slurm.explain import explain, is_fit
from slipway.jobs.platforms.slurm.explain import log_streams as streams_of
from slipway.jobs.platforms.slurm.login_node import (
    await_output,
    find_login_node,
    lacks_login_node,
    needed_login_node,
    no_login_node,
    read_answer,
    refuse_failed_scheduler,
    run_action,
)
from slipway.jobs.platforms.slurm.node.setting import USER
from slipway.jobs.platforms.slurm.request import attempts, build_request
from slipway.jobs.platforms.slurm.runs import (
    is_known,
    list_jobs,
    list_runs,
    refresh,
    unfinished_runs,
)
from slipway.jobs.words.job import CommandRequest, Job, code_words, request_key
from slipway.jobs.words.recipes import Recipe
from slipway.jobs.words.run import Found, Run, locator
from slipway.jobs.words.slurm import UNFIT
from slipway.jobs.words.targets import SlurmTarget
from slipway.jobs.words.text import Say

__all__ = ["explain", "is_known", "list_jobs", "list_runs", "refresh", "unfinished_runs"]

SlurmPrepared = Prepared[SlurmTarget, CommandRequest]

SERVICE = "Slurm"
ENTERED_AS = USER
TAKES_ARRAYS = TAKES_IMAGES = True  # images only if the cluster runs containers


def prepare(job: Job, recipe: Recipe, target: SlurmTarget, waits_for: tuple[str, ...]) -> SlurmPrepared:
    code = pack(own_containers()).digest
    build = partial(build_request, target=target, module=recipe.module, code=code, waits_for=waits_for)
    request = build(job)
    refuse_malformed("ssm", "SendCommand", request.send_command)
    missing = () if find_login_node(target) else (f"{no_login_node(target).message}; submitting refuses",)
    return Prepared(
        job=job,
        recipe=recipe,
        target=target,
        request=request,
        build=build,
        image=job.image or target.container or code_words(target.machine_image, code),
        image_digest=f"sha256:{code}",
        waits_for=waits_for,
        attempts=attempts(job),
        warnings=missing,
    )


def refuse_unready(prepared: SlurmPrepared) -> None:
    """Refuse a cluster without a running Slurm; Slurm itself waits for missing nodes."""
    refuse_failed_scheduler(prepared.target)


def make_ready(prepared: SlurmPrepared, say: Say) -> str:
    """Check that the login node is there, and upload the code; return the node's instance."""
    target, request = prepared.target, prepared.request
    login = needed_login_node(target)
    upload(pack(own_containers()), request.digest, target, say)
    return login


def send(prepared: SlurmPrepared, taker: str) -> str:
    """Send the request and return Slurm's id; the login node calls sbatch only for jobs that Slurm lacks."""
    sent = send_command(prepared.request, prepared.target, taker)
    return await_output(prepared.target, sent).rpartition("\n")[2]


def find_job_id(name: str, target: SlurmTarget) -> str | None:
    return next((job.id for job in list_jobs(target) if job.name == name), None)


def find_dependencies_of(run: Run, target: SlurmTarget) -> list[Run]:
    """Return the jobs that this one waits for; the one that compiles its graphs is part of it."""
    return [other for other in list_runs(target) if other.id in run.depends_on]


def log_streams(found: Found[SlurmTarget], node: int | None) -> list[tuple[int, str]]:
    """List the streams of all attempts, which hold all lines; each line names its node."""
    return [(0, name) for name in streams_of(found)]


def log_locator() -> Callable[[int, str], int]:
    return locator(launchers_per_node=True)


def cancel(found: Found[SlurmTarget], reason: str) -> None:
    """End the job and the one that compiles its graphs; ranks have Slurm's KillWait to save."""
    run_action(found.target, "cancel", request=request_key(found.run.name))


def node_rows(target: SlurmTarget) -> Sequence[Mapping[str, object]]:
    rows = []
    for node in read_answer(target).nodes:
        why = node.reason or ("" if is_fit(node) else f"Slurm says {node.state}")
        if "POWERED_DOWN" in node.state or "POWER_DOWN" in node.state:
            why = "Slurm starts it when a job needs it"
            if node.reason.startswith(UNFIT):
                why += f"; its last machine was not fit: {node.reason.removeprefix(UNFIT)}"
            elif machine_reason(node.reason):
                why += f"; the last time AWS refused it: {node.reason}"
        rows.append(
            {
                "name": node.name,
                "instance_id": None,
                "main": False,
                "answered": not why,
                "why": why,
                "state": node.state,
            }
        )
    return rows


def way_into(run: Run, target: SlurmTarget) -> WayIn:
    """Return the login node, from which Slurm leads on to the nodes of its jobs."""
    step = f"sudo -iu {USER} srun --jobid={run.id} --overlap --pty bash -l"
    return WayIn(
        instances=[find_login_node(target)],
        note=f"this is the login node; to a node of the job: {step} (another than the first: -w HOST)",
    )


def missing_machines(target: SlurmTarget) -> Sequence[MissingMachine]:
    """Return a missing login node; missing workers are shown when their job is explained."""
    lacks = lacks_login_node(target)
    if isinstance(lacks, Unanswered):
        return [lacks]
    if not lacks:
        return []
    missing = no_login_node(target)
    return [(missing.message, missing.hint)]
