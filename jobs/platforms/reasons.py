"""Explains the reasons that AWS gives, each in a sentence and with what to do. A new one is one row of
REASONS.

AWS Batch's words: user guide, "Jobs stuck in a RUNNABLE status" and "Job queue blocked events"; ECS's:
developer guide, "Stopped tasks error messages" and "CannotPullContainer task errors".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slipway.jobs.words.job import own_checkpoints
from slipway.jobs.words.run import AGAIN, LONGER, Explanation, JobState, Reason, Run

Told = tuple[str, str]  # the meaning, and what to do, with fields that `explained` fills in

_CAPACITY = "ask again later, in another zone or Region, or for fewer nodes; reserved capacity does not wait"

# Why AWS starts no machine, for all platforms.
MACHINE_REASONS: tuple[Reason, ...] = (
    Reason(
        pattern=r"CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY|Insufficient\w*Capacity|UnfulfillableCapacity"
        r"|sufficient .*capacity",
        means="AWS has too few free machines of this type in the cluster's zone",
        fix=_CAPACITY,
    ),
    Reason(
        pattern=r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded"
        r"|more vCPU capacity than your current vCPU limit",
        means="the account's quota of vCPUs leaves no room for the machines that it needs",
        fix="slipway cluster quota {target} --request; what waits goes on when AWS has granted it",
    ),
)

# The first match wins, so narrower patterns come first.
REASONS: tuple[Reason, ...] = (
    *MACHINE_REASONS,
    Reason(
        pattern=r"CAPACITY:YARD_MEMORY",
        means="this machine has too little free memory for it next to the jobs that run in the yard",
        fix="it starts after others have ended; with --processes-per-node 1 it needs less memory",
    ),
    Reason(
        pattern=r"MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        means="it asks for more nodes than the cluster may have",
        fix="raise max_nodes in clusters.py and deploy, or cancel the job and ask for fewer nodes",
    ),
    Reason(
        pattern=r"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
        means="no instance of the cluster can give a node what the job definition asks for",
        fix="deploy the cluster again: the definition's vCPUs, memory and devices must fit the instance type",
    ),
    Reason(
        pattern=r"MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS",
        means="AWS Batch's service role lacks a permission",
        fix="use the service-linked role of AWS Batch, or give the role what the reason names",
    ),
    Reason(
        pattern=r"ACTION_REQUIRED|compute environment.*(INVALID|invalid)|CE\(s\).*invalid",
        means="the cluster's compute environment is invalid",
        fix="fix what AWS reports, and deploy again",
    ),
    Reason(
        pattern=r"CannotPull\w*|pull image|manifest .*not found|ImagePull",
        means="a node could not pull the image",
        fix="slipway image build {image} --on {target}; if it is pushed: check that the nodes can reach ECR",
    ),
    Reason(
        pattern=r"ResourceInitializationError",
        means="a node could not set up the container's logs, secrets or file system",
        fix="check the endpoints and the execution role of the cluster: slipway preflight {target}",
    ),
    Reason(
        pattern=r"OutOfMemory|OOM",
        means="the container used more memory than its node gives it",
        fix="set a smaller micro_batch or fewer workers; without a change it will fail again",
    ),
    Reason(
        pattern=r"Host EC2",
        means="its machine was lost",
        fix=AGAIN,
    ),
    Reason(
        pattern=r"exceeded timeout|attempt duration",
        means="it took longer than its timeout, and a job that timed out is not tried again",
        fix=LONGER,
    ),
    Reason(
        pattern=r"[Dd]ependent [Jj]ob|dependsOn|dependency",
        means="a job that it depends on failed",
        fix="explain that job first: slipway explain JOB",
    ),
    Reason(
        pattern=r"[Cc]ancel+ed (with slipway|by user)|[Tt]erminated job|[Uu]ser (initiated|requested)",
        means="somebody cancelled it",
        fix=AGAIN,
    ),
    Reason(
        pattern=r"submitted twice in the same instant",
        means="another machine submitted the same job in the same instant, and that one was kept",
        fix="slipway status shows the other job",
    ),
    Reason(
        pattern=r"DockerTimeoutError|CannotStartContainer|CannotCreateContainer|CannotInspectContainer",
        means="Docker on a node could not start the container",
        fix="submit it again; if it fails again, check the node's disk and devices",
    ),
    Reason(
        pattern=r"UNDETERMINED for \d+ minutes",
        means="its nodes started and did not join the cluster, so it was cancelled and they end",
        fix="slipway preflight {target}; the console of a node says why: aws ec2 get-console-output",
    ),
    Reason(
        pattern=r"UNDETERMINED",
        means="AWS Batch sees that the queue is blocked and does not know why",
        fix="slipway preflight {target}; then look whether nodes join: slipway cluster list {target}",
    ),
)


def explained(
    run: Run, told: Told, image: str, evidence: Iterable[str | None], kept: str | None = None
) -> Explanation:
    """Return the explanation of this job, with each piece of evidence once; `kept` is where it saved."""
    sentence, fix = told
    return Explanation(
        sentence=f"{run.name} {sentence}",
        fix=fix.format(
            job=run.name, target=run.target, id=run.id, image=image, kept=kept or own_checkpoints(run.name)
        ),
        evidence=tuple(dict.fromkeys(each for each in evidence if each)),
    )


def told_by_state(run: Run, thing: str = "node") -> Told:
    """Return what the job's state alone says, if the platform has nothing to add."""
    if run.state is JobState.SUCCEEDED:
        return "succeeded", ""
    if run.state is not JobState.RUNNING:
        return f"is in a state that Slipway does not know: {run.status}", ""
    tries = len(run.attempts)
    return f"runs on {counted(run.nodes, thing)}{f', attempt {tries + 1}' if tries else ''}", ""


def counted(number: int | None, thing: str) -> str:
    """Return the number with its noun; without a number, words for all of them."""
    return f"its {thing}s" if number is None else f"{number} {thing}{'' if number == 1 else 's'}"


def known_reason(said: str, reasons: Iterable[Reason] = REASONS) -> Reason | None:
    return next((reason for reason in reasons if re.search(reason.pattern, said)), None)


def machine_reason(said: str) -> Reason | None:
    """Return why AWS starts no machine; None if its words say something else."""
    return known_reason(said, MACHINE_REASONS)
