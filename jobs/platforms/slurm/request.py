"""Builds the requests for a job on a Slurm cluster: an object in S3, and a command to its login node for
sbatch.

Everything is decided here except the ids of jobs to wait for, and facts that only a node knows:
jobs/platforms/slurm/node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from shlex import quote
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.jobs.words import slurm
from slipway.jobs.words.catalogue.hardware import device_of, gres_of, hardware_of
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.job import (
    CommandRequest,
    DoesNotFit,
    InvalidJob,
    Job,
    code_words,
    request_object,
    submission_name,
)
from slipway.jobs.words.launch_environment import (
    launch_environment,
    refuse_misfit,
    setting_words,
    timeout_seconds,
)
from slipway.jobs.words.run import JobState
from slipway.jobs.words.slurm import COMPILE, JOB_ID, NODE_MODULE, PYTHON, RUN, SlurmBatch, SlurmJob, comment
from slipway.jobs.words.targets import SlurmTarget

# Slurm documentation, squeue(1) and sacct(1), "JOB STATE CODES" of releases 22.05 to 25.11.
STATES: Mapping[str, JobState] = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING"),
        JobState.WAITING,
    ),
    **dict.fromkeys(("CONFIGURING", "POWER_UP_NODE"), JobState.STARTING),
    **dict.fromkeys(
        ("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"),
        JobState.RUNNING,
    ),
    "COMPLETED": JobState.SUCCEEDED,
    **dict.fromkeys(
        (
            *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL"),
            *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
        ),
        JobState.FAILED,
    ),
}

# A lost machine, and a time limit that ends in a checkpoint, each cost an attempt. A launch that EC2 refused
# and a node that the prolog found unfit cost none. A job that needs more has a fault of its own.
ATTEMPTS = 3
DELIVERY_SECONDS = 600  # within which the login node's agent has to take a command
# Recipes that trace graphs for Neuron's compiler; others run on the nodes' processors.
COMPILED_RECIPES = frozenset({"gpt_neox"})
# Recipes' names of the settings whose product must divide the ranks.
_TENSOR, _PIPELINE = "tensor", "pipeline"


def build_request(
    job: Job,
    target: SlurmTarget,
    *,
    module: str,
    code: str,
    waits_for: tuple[str, ...] = (),
) -> CommandRequest:
    """Build the request: `module` is what every rank runs, `code` the digest of the bundle."""
    refuse_misfit(job, target)
    _refuse_what_cannot_be(job, target, waits_for)
    name = submission_name(job, target, code_words(target.machine_image, code))
    decided = SlurmJob(
        name=name,
        recipe=job.recipe,
        nodes=job.nodes,
        arguments=tuple(setting_words(job)),
        code=code,
        attempts=attempts(job),
        batches=tuple(_batches(job, target, name, module, code)),
        depends_on=waits_for,
    )
    put = request_object(name, slurm.encode(decided), target)
    digest = sha256(put["Body"].encode()).hexdigest()
    command = build_command(target, action="submit", request=put["Key"], digest=digest)
    return CommandRequest(digest=code, put=put, send_command={**command, "Comment": name})


def build_command(
    target: SlurmTarget, *, action: str, request: str = "", digest: str = ""
) -> Mapping[str, Any]:
    """Build a command to the login node; without a request it is about all jobs."""
    words = {"Action": action, "Request": request, "Digest": digest}
    return {
        "DocumentName": target.run_document,
        "Parameters": {name: [word] for name, word in words.items() if word},
        "TimeoutSeconds": DELIVERY_SECONDS,
    }


def attempts(job: Job) -> int:
    return ATTEMPTS if job.attempts is None else job.attempts


def ranks_per_node(environment: Mapping[str, str]) -> int:
    return int(environment[variables.PROCESSES_PER_NODE])


def _batches(job: Job, target: SlurmTarget, name: str, module: str, code: str) -> Iterator[SlurmBatch]:
    """Yield the job, after the one that compiles its graphs, if the hardware needs that."""
    mount = target.file_system_mount
    seconds = timeout_seconds(job, target)
    environment = {
        **launch_environment(job, target, name),
        variables.GRACE_SECONDS: str(grace_seconds(seconds)),
    }
    is_compiled = (
        device_of(instance_type(target.instance_type)) == "neuron" and job.recipe in COMPILED_RECIPES
    )
    for phase in (COMPILE, RUN) if is_compiled else (RUN,):
        work = BatchWork(
            name=name,
            phase=phase,
            queue=target.queue,
            nodes=job.nodes,
            gres=asked_gres(instance_type(target.instance_type)),
            array=job.array,
            timeout_seconds=seconds,
            attempts=attempts(job),
            ranks_per_node=ranks_per_node(environment),
            folder=f"{mount}/jobs/{name}",
            code=f"{mount}/slipway/code/{code}",
            image=job.image,
            module=module,
            recipe=job.recipe,
            settings=setting_words(job)[1::2],  # without --set
            environment=environment,
        )
        yield SlurmBatch(phase=phase, options=sbatch_options(work), script=batch_script(work))


def _refuse_what_cannot_be(job: Job, target: SlurmTarget, waits_for: tuple[str, ...]) -> None:
    if target.file_system_mount is None:
        raise DoesNotFit(
            f"the nodes of cluster '{target.name}' share no files, where a job on Slurm has its log and code",
            hint="set file_system in clusters.py, and deploy again",
        )
    for job_id in waits_for:
        assert re.fullmatch(JOB_ID, job_id), f"Slurm gave an id that is none: {job_id!r}"
    ranks = ranks_per_node(launch_environment(job, target, job.name)) * job.nodes
    refuse_split(job.settings, ranks, f"{job.nodes} nodes")


def refuse_split(settings: Mapping[str, str], ranks: int, of: str) -> None:
    """Refuse a split that does not divide the ranks; the recipe itself judges values that are no numbers."""
    given = {name: settings.get(name, "1") for name in (_TENSOR, _PIPELINE)}
    if not all(value.isascii() and value.isdigit() and int(value) for value in given.values()):
        return
    split = int(given[_TENSOR]) * int(given[_PIPELINE])
    if ranks % split:
        raise InvalidJob(
            [
                Problem(
                    where="--set",
                    message=f"{_TENSOR}={given[_TENSOR]} times {_PIPELINE}={given[_PIPELINE]} is {split}, "
                    f"and does not divide the {ranks} ranks of {of}",
                    hint="choose another number of nodes or another split",
                )
            ]
        )


# A job's batch scripts and their options of sbatch: pure text, quoted for a shell. A script sets the
# variables of the job and becomes one program, node/train.py, which does the rest, as for scripts that a
# person gives to sbatch.
_MINUTE_SECONDS = 60
# Seconds before the end of its time at which a job is warned, so that ranks save; a short job uses a share.
WARNING_SECONDS = 300
_WARNING_SHARE = 4
# Share of the warning in which ranks have to save, before the time is over for all.
_GRACE_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """Describes what one batch script does."""

    name: str
    phase: str
    queue: str
    nodes: int
    gres: str = ""  # that each node gives its step
    array: str | None  # in sbatch's form
    timeout_seconds: int
    attempts: int
    ranks_per_node: int
    folder: str  # of the run, seen by all nodes and the login node
    code: str  # the folder of the job's code, seen by all
    image: str | None = None  # of the ranks' container, if the job names its own
    module: str
    recipe: str
    settings: Sequence[str]  # key=value
    environment: Mapping[str, str]


def warning_seconds(timeout_seconds: int) -> int:
    """Return how long before its end a job is warned."""
    return min(WARNING_SECONDS, timeout_seconds // _WARNING_SHARE)


def grace_seconds(timeout_seconds: int) -> int:
    """Return how long ranks have to save after the warning."""
    return int(warning_seconds(timeout_seconds) * _GRACE_SHARE)


def asked_gres(type_: InstanceType) -> str:
    """Return what a step must request, or Slurm keeps it from its ranks: GPUs, which have files in gres.conf.

    srun(1), --gres: a step gets what its job requested, and not what only --exclusive gave it.
    """
    return gres_of(type_) if hardware_of(type_).counted_as_gpus else ""


def sbatch_options(work: BatchWork) -> tuple[str, ...]:
    """Return all options of sbatch except the jobs to wait for, whose ids only Slurm knows."""
    suffix = f"-{COMPILE}" if work.phase == COMPILE else ""
    return (
        f"--job-name={work.name}{suffix}",
        f"--comment={comment(work.name, work.phase)}",
        f"--partition={work.queue}",
        f"--nodes={work.nodes}",
        *([f"--array={work.array}"] if work.array else []),
        "--ntasks-per-node=1",  # a launcher, which starts the ranks
        "--exclusive",
        *([f"--gres={work.gres}"] if work.gres else []),
        "--mem=0",  # all that the node has
        "--wait-all-nodes=1",  # that Slurm starts for this job
        f"--time={math.ceil(work.timeout_seconds / _MINUTE_SECONDS)}",
        f"--signal=B:USR1@{warning_seconds(work.timeout_seconds)}",
        "--requeue",
        "--open-mode=append",  # another attempt keeps the log of the one before
        f"--output={work.folder}/{work.phase}-%j.log",
        f"--chdir={work.folder}",
        "--export=NIL",  # a job gets nothing of the submitter's shell
    )


def batch_script(work: BatchWork) -> str:
    for name in work.environment:  # names are ours, values may be anything
        assert name.isidentifier(), f"no name of a variable: {name!r}"
    words = [
        *(PYTHON, "-m", NODE_MODULE, "train"),
        *("--phase", work.phase),
        *("--attempts", str(work.attempts)),
        *("--ranks-per-node", str(work.ranks_per_node)),
        *("--folder", work.folder),
        *("--code", work.code),
        *(("--image", work.image) if work.image else ()),
        *("--module", work.module),
        *("--", work.recipe, *work.settings),
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Written by Slipway for {work.name}; Slurm runs it again for every attempt.",
            *(f"export {name}={quote(value)}" for name, value in sorted(work.environment.items())),
            f"exec {' '.join(map(quote, words))}",
            "",
        ]
    )
