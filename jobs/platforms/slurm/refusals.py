"""What AWS says of nodes that it did not start: AWS PCS keeps it for a node group, Slurm for a node.

PCS's user guide names errorInfo and does not say for how long it keeps an error, so it is told only of nodes
that are missing now.
"""

from __future__ import annotations

from collections.abc import Iterable

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.reasons import machine_reason
from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.words.slurm.slurm_answer import SlurmAnswer, SlurmNode, SlurmRecord
from slipway.jobs.words.states import JobState, translate
from slipway.jobs.words.targets import SlurmTarget

# Slurm's reasons of a job that could start if it had nodes.
_FOR_NODES = ("BeginTime", "NodeDown", "None", "Priority", "ReqNodeNotAvail", "Resources")


def refused_launches(target: SlurmTarget, group: str) -> tuple[str, ...] | Unanswered:
    """Return what AWS says of a node group's launches that failed, each in its code and words, once."""
    which = {
        "clusterIdentifier": target.scheduler_cluster,
        "computeNodeGroupIdentifier": group,
    }
    answer = ask(reader("pcs", target.region), "GetComputeNodeGroup", **which)
    if isinstance(answer, Unanswered):
        return answer
    errors = answer["computeNodeGroup"].get("errorInfo") or ()
    return tuple(dict.fromkeys(f"{error.get('code')}: {error.get('message')}" for error in errors))


def look_at_group(target: SlurmTarget, group: str) -> str:
    """Return the command that shows what PCS knows of a node group."""
    return (
        f"aws pcs get-compute-node-group --cluster-identifier {target.scheduler_cluster} "
        f"--compute-node-group-identifier {group}"
    )


def advice(refused: str, target: SlurmTarget, group: str) -> str:
    """Return what to do where AWS refuses nodes in these words."""
    reason = machine_reason(refused)
    return reason.fix.format(target=target.name) if reason else look_at_group(target, group)


def node_reasons(nodes: Iterable[SlurmNode]) -> tuple[str, ...]:
    """Return why EC2 started no machine for nodes, as Slurm was told, each reason once."""
    return tuple(dict.fromkeys(node.reason for node in nodes if machine_reason(node.reason)))


def refused_workers(names: Iterable[str], answer: SlurmAnswer, target: SlurmTarget) -> tuple[str, ...]:
    """Return what AWS says of the workers that some submission waits for; empty where none does."""
    if not any(misses_nodes(name, answer) for name in names):
        return ()
    said = refused_launches(target, target.node_group)
    return (() if isinstance(said, Unanswered) else said) or node_reasons(answer.nodes)


def misses_nodes(name: str, answer: SlurmAnswer) -> bool:
    """Return True if a job of a submission waits for nodes, and launches of some have failed."""
    return any(_misses_nodes(record, answer) for record in answer.jobs if record.name == name)


def _misses_nodes(record: SlurmRecord, answer: SlurmAnswer) -> bool:
    """Tell it of none whose nodes are starting: what was refused before may be over."""
    is_waiting = translate(STATES, record.state) is JobState.WAITING
    if not is_waiting or not (record.reason or "None").startswith(_FOR_NODES):
        return False
    own = sum(attempt.job == record.id for attempt in answer.attempts)
    return record.restarts > own or bool(node_reasons(answer.nodes))
