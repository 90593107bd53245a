"""The static half of the launch contract: the variables that every platform gives the launchers of a job.

containers/runtime/contract/launchers.py reads the other half where the launcher runs. Another fact for
containers is one line of `launch_environment`, a field of containers/runtime/contract/contract.py, and a name
in its variables.py.
"""

from __future__ import annotations

from slipway.containers.runtime.contract import variables
from slipway.jobs.words.catalogue.hardware import family_of
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.job import DoesNotFit, InvalidJob, Job, own_checkpoints
from slipway.jobs.words.run import price_of, term_of
from slipway.jobs.words.sagemaker import job_url
from slipway.jobs.words.targets import MpiTarget, SageMakerTarget, SlurmTarget, Target

SETTING_OPTION = "--set"


def launch_environment(job: Job, target: Target, name: str) -> dict[str, str]:
    mount, price = target.file_system_mount, price_of(target)
    is_known = price is not None and price.term == term_of(target)
    hardware = instance_type(target.instance_type)
    family, accelerator = family_of(hardware), hardware.accelerator
    devices = accelerator.count if accelerator else 0
    ranks = devices * family.ranks_per_device if family else devices
    told = {
        # What the launcher counts before it starts, so that a missing device fails at once.
        variables.ACCELERATOR: family.files if family else None,
        variables.ACCELERATORS: str(devices) if family else None,
        variables.EFA_INTERFACES: str(target.efa_interfaces),
        variables.HUGE_PAGES: str(family.huge_pages) if family and family.huge_pages else None,
        variables.PROCESSES_PER_NODE: str(job.processes_per_node or ranks or 1),
        "AWS_REGION": target.region,  # containers on EC2 have no other source for it
        variables.ACCOUNT: target.account,
        variables.JOB: name,
        variables.NODES: str(job.nodes),
        variables.RESUME_AFTER_SIGNALS: "1",  # retries crashed ranks, and none that ran out of memory
        # Of all nodes, as they are bought.
        variables.USD_PER_HOUR: f"{price.usd_per_hour * job.nodes:.6g}" if price and is_known else None,
        variables.TIMEOUT_SECONDS: str(timeout_seconds(job, target)),
        variables.DATA: _place("--data", job.data, target, default="data"),
        variables.CHECKPOINTS: _place(
            "--checkpoints", job.checkpoints, target, default=own_checkpoints(name)
        ),
        variables.LOGS: f"{mount}/logs/{name}" if mount else None,
        # Launchers on nodes ask about interruptions, which only Spot instances have.
        variables.MARKET: "spot" if target.is_spot and isinstance(target, MpiTarget | SlurmTarget) else None,
    }
    return {key: value for key, value in sorted(told.items()) if value is not None}


def saved_in(name: str, target: Target) -> str:
    """Return where a job without --checkpoints saves, as a value of --checkpoints."""
    if isinstance(target, SageMakerTarget) and not target.file_system_mount:
        return job_url(target.bucket, name, "checkpoints")
    return own_checkpoints(name)


def setting_words(job: Job) -> list[str]:
    """Return the words of the command line for the settings; no shell ever reads them."""
    settings = (f"{name}={value}" for name, value in sorted(job.settings.items()))
    return [word for setting in settings for word in (SETTING_OPTION, setting)]


def timeout_seconds(job: Job, target: Target) -> int:
    return target.job_timeout_seconds if job.timeout_seconds is None else job.timeout_seconds


def refuse_misfit(job: Job, target: Target) -> None:
    if job.nodes > target.max_nodes:
        raise DoesNotFit(
            f"job '{job.name}' asks for {job.nodes} nodes but cluster '{target.name}' has {target.max_nodes}",
            hint=f"ask for at most {target.max_nodes}, or raise max_nodes in clusters.py",
        )
    if timeout_seconds(job, target) > target.job_timeout_seconds:
        raise DoesNotFit(
            f"job '{job.name}' asks for {job.timeout_seconds} s but one on cluster '{target.name}' may take "
            f"{target.job_timeout_seconds}",
            hint="ask for less, or raise job_timeout_hours in clusters.py",
        )
    hardware = instance_type(target.instance_type)
    most, things = hardware.vcpus, "vCPUs"
    if (family := family_of(hardware)) and hardware.accelerator:
        most = hardware.accelerator.count * family.ranks_per_device
        things = f"{hardware.accelerator.name} {'devices' if family.ranks_per_device == 1 else 'cores'}"
    if job.processes_per_node and job.processes_per_node > most:
        raise DoesNotFit(
            f"--processes-per-node is {job.processes_per_node}, and a node of '{target.name}' "
            f"({hardware.name}) has {most} {things}",
            hint=f"ask for at most {most}, or leave it out",
        )


def _place(option: str, given: str | None, target: Target, *, default: str) -> str | None:
    """Return a path or URL unchanged; put a relative path under the shared file system."""
    if given is not None and (given.startswith("/") or "://" in given):
        return given
    if target.file_system_mount:
        return f"{target.file_system_mount}/{given or default}"
    if given is None:
        return None
    raise InvalidJob(
        [
            Problem(
                where=option,
                message=f"'{given}' is relative, and the nodes of cluster '{target.name}' share no files",
                hint="give a full path or URL, or set file_system in clusters.py",
            )
        ]
    )
