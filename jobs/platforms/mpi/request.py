"""Builds the requests for a job on an MPI cluster: one object in S3 and one SendCommand to the main node.

They hold all that is known before the nodes are: the program, its settings and variables, and the paths of
its data. The main node decides hosts, ranks and mpirun's options: node/run.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.containers.runtime.contract import variables
from slipway.jobs.words import mpi
from slipway.jobs.words.catalogue.hardware import family_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.job import (
    CommandRequest,
    DoesNotFit,
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
from slipway.jobs.words.mpi import LONGEST_SECONDS, MpiJob, command_seconds
from slipway.jobs.words.run import JobState
from slipway.jobs.words.targets import MpiTarget

# Status of a command invocation (Systems Manager API reference, GetCommandInvocation).
STATES: Mapping[str, JobState] = {
    "Pending": JobState.WAITING,
    "Delayed": JobState.WAITING,
    "InProgress": JobState.RUNNING,
    "Cancelling": JobState.RUNNING,
    "Success": JobState.SUCCEEDED,
    "Failed": JobState.FAILED,
    "Cancelled": JobState.FAILED,
    "TimedOut": JobState.FAILED,
}

# If the main node's agent does not take the command within it, the command never starts.
DELIVERY_SECONDS = 600
_NODE_NAMES_ONLY = variables.PROCESSES_PER_NODE  # the nodes count their NUMA domains first


def build_request(
    job: Job, target: MpiTarget, *, module: str, code: str, waits_for: tuple[str, ...] = ()
) -> CommandRequest:
    """Build the request: `module` is what every rank runs, `code` the digest of the bundle.

    `waits_for` are the ids of the jobs that must succeed first.
    """
    refuse_misfit(job, target)
    asked = attempts(job) * timeout_seconds(job, target)
    if asked > LONGEST_SECONDS:
        raise DoesNotFit(
            f"job '{job.name}' may take {asked} s in all its attempts, and Systems Manager ends a command "
            f"after {LONGEST_SECONDS}",
            hint="ask for a shorter --timeout-hours or fewer --attempts; a job resumes from its checkpoints",
        )
    decided = _decide(job, target, module, code, waits_for)
    # Systems Manager ends the command after it; the wait for other jobs counts, too.
    seconds = min(LONGEST_SECONDS, command_seconds(decided.timeout_seconds, decided.attempts))
    longest = LONGEST_SECONDS if decided.waits_for else seconds
    put = request_object(decided.name, mpi.encode(decided), target)
    return CommandRequest(
        digest=code,
        put=put,
        send_command={
            "DocumentName": target.run_document,
            "Parameters": {"RequestKey": [put["Key"]], "TimeoutSeconds": [str(longest)]},
            "Comment": decided.name,
            "TimeoutSeconds": DELIVERY_SECONDS,
            "CloudWatchOutputConfig": {
                "CloudWatchLogGroupName": target.log_group,
                "CloudWatchOutputEnabled": True,
            },
        },
    )


def attempts(job: Job) -> int:
    return 1 if job.attempts is None else job.attempts


def _decide(job: Job, target: MpiTarget, module: str, code: str, waits_for: tuple[str, ...]) -> MpiJob:
    name = submission_name(job, target, code_words(target.machine_image, code))
    hardware = instance_type(target.instance_type)
    family, accelerator = family_of(hardware), hardware.accelerator
    environment = {
        **launch_environment(job, target, name),
        **(family.efa_variables if family and target.efa_interfaces else {}),
    }
    return MpiJob(
        name=name,
        recipe=job.recipe,
        nodes=job.nodes,
        module=module,
        arguments=tuple(setting_words(job)),
        environment={key: value for key, value in environment.items() if key != _NODE_NAMES_ONLY},
        processes_per_node=job.processes_per_node or (accelerator.count if accelerator else None),
        code=code,
        mpi=target.mpi,
        efa_interfaces=target.efa_interfaces,
        attempts=attempts(job),
        timeout_seconds=timeout_seconds(job, target),
        waits_for=waits_for,
    )
