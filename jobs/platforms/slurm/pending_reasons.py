"""What Slurm's reasons mean for a job that waits or ended, and what to do. A new one is a row.

The words are those of squeue(1), "JOB REASON CODES", of releases 22.05 to 25.11.
"""

from __future__ import annotations

from collections.abc import Mapping

# Reason, or how it begins: what it means, what to do. `{job}`, `{target}` and `{id}` are filled in.
REASONS: Mapping[str, tuple[str, str]] = {
    "None": ("the scheduler has not looked at it yet", ""),
    "Resources": (
        "it waits for nodes, which other jobs have or PCS is starting",
        "slipway status --on {target} --nodes",
    ),
    "Priority": ("jobs before it in the queue wait for nodes as well", "slipway runs --on {target}"),
    "DependencyNeverSatisfied": (
        "a job that it waits for has failed, so it will never start",
        "slipway explain on that job; `slipway submit … --again` runs both once more",
    ),
    "Dependency": ("it waits for another job to succeed", "slipway runs --on {target}"),
    "BeginTime": (
        "it is back in the queue; Slurm lets a requeued job wait two minutes, and starts it by itself",
        "",
    ),
    "JobHeldAdmin": (
        "Slurm holds it: most often a node's prolog failed where nohold_on_prolog_fail is not set",
        "look at the drained nodes, then on the login node: scontrol release {id}",
    ),
    "JobHoldMaxRequeue": ("it was requeued too often", "look at its log, then: scontrol release {id}"),
    "launch failed requeued held": (
        "a node could not start it, and Slurm holds it",
        "look at the drained nodes, then on the login node: scontrol release {id}",
    ),
    "JobHeldUser": ("somebody holds it", "scontrol release {id} on the login node"),
    "JobArrayTaskLimit": ("its array runs as many elements at once as it may", ""),
    "PartitionNodeLimit": (
        "it asks for more nodes than the queue has",
        "cancel it, and submit it with fewer --nodes: slipway cancel {job}",
    ),
    "PartitionTimeLimit": (
        "it asks for more time than the queue gives",
        "cancel it, and submit it with a shorter --timeout-hours: slipway cancel {job}",
    ),
    "PartitionDown": ("the queue is down", "scontrol show partition on the login node"),
    "PartitionInactive": ("the queue is inactive", "scontrol show partition on the login node"),
    "PartitionConfig": (
        "it asks for what no node of the queue has, most often more nodes than there are",
        "cancel it, and submit it with fewer --nodes: slipway cancel {job}",
    ),
    "ReqNodeNotAvail": (
        "nodes that it needs are down, drained or being stopped",
        "slipway status --on {target} --nodes says which, and why",
    ),
    "NodeDown": ("a node that it needs is down", "slipway status --on {target} --nodes"),
    "BadConstraints": ("no node can ever run it", "slipway cancel {job}; submit it with other --nodes"),
    "Reservation": ("it waits for its reservation", "scontrol show reservation on the login node"),
    "Licenses": ("it waits for a licence", "scontrol show licenses on the login node"),
    "Prolog": ("its nodes are being checked before it starts", ""),
    "Assoc": (
        "a limit of its account is reached",
        "sacctmgr show associations on the login node; wait, or have the limit raised",
    ),
    "QOS": ("a limit of its quality of service is reached", "sacctmgr show qos on the login node"),
    "NonZeroExitCode": ("its program failed", "slipway logs {job}"),
    "RaisedSignal": ("its program was killed by a signal", "slipway logs {job}"),
    "TimeLimit": (
        "its time was over before its ranks had saved",
        "submit it again with a longer --timeout-hours; it resumes when given the same --checkpoints",
    ),
    "OutOfMemory": ("a node ran out of memory", "set a smaller micro_batch or fewer workers"),
    "JobLaunchFailure": ("a node could not start it", "slipway status --on {target} --nodes"),
}

# Words for how a job ended, where Slurm gives no other reason.
ENDS: Mapping[str, tuple[str, str]] = {
    "CANCELLED": ("somebody cancelled it", "`slipway submit … --again` runs it once more"),
    "TIMEOUT": REASONS["TimeLimit"],
    "OUT_OF_MEMORY": REASONS["OutOfMemory"],
    "NODE_FAIL": (
        "a node failed and it was not requeued",
        "`slipway submit … --again --checkpoints …` resumes",
    ),
    "BOOT_FAIL": ("its nodes did not come up", "slipway status --on {target} --nodes"),
    "PREEMPTED": ("another job took its nodes", "`slipway submit … --again --checkpoints …` resumes"),
    "DEADLINE": ("its deadline passed", "`slipway submit … --again` runs it once more"),
}


def meaning_of(reason: str) -> tuple[str, str] | None:
    """Return what a reason means; the longest row that fits counts: Slurm appends details to some."""
    fits = [known for known in REASONS if known in reason]
    return REASONS[max(fits, key=len)] if fits else None
