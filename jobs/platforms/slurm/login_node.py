"""Sends commands to the login node of a Slurm cluster through Systems Manager, and reads their output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, client, no_answer, reader
from slipway.jobs.platforms.on_clusters import ONLINE, agent_state
from slipway.jobs.platforms.reasons import machine_reason
from slipway.jobs.platforms.slurm.request import STATES, build_command
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.run import JobState, translate
from slipway.jobs.words.slurm import GROUP_TAG, SlurmAnswer, SlurmNode, decode_answer
from slipway.jobs.words.targets import SlurmTarget

WAIT_SECONDS = 300.0  # that the run document gives its program
_POLL_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 4.0
_UNDER_WAY = ("Pending", "InProgress", "Delayed", "Cancelling")
_NOT_YET = "InvocationDoesNotExist"  # in the first moments after SendCommand
_ERROR, _HINT = "error: ", "hint: "


class NoLoginNode(SlipwayError):
    """Nothing accepts jobs for this cluster now, so nothing was submitted."""

    passes = True  # AWS PCS replaces the node


class NoScheduler(SlipwayError):
    """No Slurm runs for this cluster, so nothing was submitted."""


class LoginNodeRefused(SlipwayError):
    """The login node did not do what it was asked."""


def refuse_failed_scheduler(target: SlurmTarget) -> None:
    """Refuse a cluster if PCS itself says that no Slurm runs for it."""
    asked = ask(reader("pcs", target.region), "GetCluster", clusterIdentifier=target.scheduler_cluster)
    if isinstance(asked, Unanswered):  # without permission to ask, the login node will tell
        return
    if why := "; ".join(str(error["message"]) for error in asked["cluster"].get("errorInfo") or ()):
        raise NoScheduler(
            f"AWS PCS says that the scheduler of '{target.name}' has failed: {why}",
            hint=f"aws pcs get-cluster --cluster-identifier {target.scheduler_cluster} says more",
        )


def find_login_node(target: SlurmTarget) -> str | None:
    """Return the instance of the login node; None while none runs."""
    pages = reader("ec2", target.region).get_paginator("describe_instances").paginate(Filters=_of(target))
    found = [
        (instance["LaunchTime"], str(instance["InstanceId"]))
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    return min(found)[1] if found else None


def lacks_login_node(target: SlurmTarget) -> bool | Unanswered:
    """Return True if AWS says that none runs."""
    found = ask_all(reader("ec2", target.region), "DescribeInstances", "Reservations", Filters=_of(target))
    return found if isinstance(found, Unanswered) else not found


def _of(target: SlurmTarget) -> list[Mapping[str, Any]]:
    return [
        {"Name": f"tag:{GROUP_TAG}", "Values": [target.login_group]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]


def no_login_node(target: SlurmTarget) -> NoLoginNode:
    """Return the error that no login node runs, with AWS's words on its launches."""
    missing = f"no login node of '{target.name}' is running"
    refused = refused_launches(target, target.login_group)
    if isinstance(refused, Unanswered):
        look = f"{look_at_group(target, target.login_group)} says why"
        if refused.is_denied:
            look += f"; {refused.remedy('submit')}"
        return NoLoginNode(f"{missing}, and {refused.action} gave no answer: {refused.code}", hint=look)
    if refused:
        hint = advice(refused[0], target, target.login_group)
        return NoLoginNode(f"{missing}: AWS says {'; '.join(refused)}", hint=hint)
    return NoLoginNode(
        f"{missing}, and only that can reach its scheduler",
        hint="PCS starts it within minutes of a deployment; if it does not: "
        f"{look_at_group(target, target.login_group)}",
    )


def needed_login_node(target: SlurmTarget) -> str:
    instance = find_login_node(target)
    if instance is None:
        raise no_login_node(target)
    if (state := agent_state(instance, target.region)) != ONLINE:
        raise NoLoginNode(
            f"Systems Manager does not reach the login node {instance} of '{target.name}' ({state})",
            hint="a node that boots is reached a minute or two later; run the same command again",
        )
    return instance


def read_answer(target: SlurmTarget) -> SlurmAnswer:
    """Ask what is known of all submissions; a controller that restarts answers later."""
    try:
        return decode_answer(run_action(target, "status"))
    except LoginNodeRefused as error:
        error.passes = True
        raise


def run_action(target: SlurmTarget, action: str, *, request: str = "") -> str:
    """Run one action and return what it prints; repeating any of them does no harm."""
    instance = needed_login_node(target)
    command = build_command(target, action=action, request=request)
    sent = client("ssm", target.region).send_command(**command, InstanceIds=[instance])
    return await_output(target, sent)


def await_output(target: SlurmTarget, sent: Mapping[str, Any]) -> str:
    """Wait until a command has ended; return its output, or raise its error."""
    command = sent["Command"]["CommandId"]
    instance = sent["Command"]["InstanceIds"][0]
    ends, pause = time.monotonic() + WAIT_SECONDS, _POLL_SECONDS
    while time.monotonic() < ends:
        answer = ask(
            reader("ssm", target.region), "GetCommandInvocation", CommandId=command, InstanceId=instance
        )
        if isinstance(answer, Unanswered) and answer.code != _NOT_YET:
            raise no_answer(answer, "run the same command again: nothing is submitted twice")
        if not isinstance(answer, Unanswered) and answer["Status"] not in _UNDER_WAY:
            return _output(answer, instance)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
    raise LoginNodeRefused(
        f"the login node {instance} has not answered command {command} after {WAIT_SECONDS:.0f} s",
        hint="run the same command again: nothing is submitted twice",
    )


def _output(answer: Mapping[str, Any], instance: str) -> str:
    if answer["Status"] == "Success":
        return str(answer.get("StandardOutputContent") or "").strip()
    lines = str(answer.get("StandardErrorContent") or "").splitlines()
    error = next((line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)), None)
    hint = next((line.removeprefix(_HINT) for line in lines if line.startswith(_HINT)), "")
    if error is None:
        last = next((line for line in reversed(lines) if line.strip()), "it says nothing")
        error = f"its command ended as {answer.get('StatusDetails') or answer['Status']}: {last.strip()}"
    raise LoginNodeRefused(f"login node {instance}: {error}", hint=hint)


# AWS's words on nodes that it did not start: AWS PCS keeps them for a node group, Slurm for a node. PCS's
# user guide names errorInfo and does not say for how long it keeps an error, so it is shown only for nodes
# that are missing now. Below are Slurm's reasons of a job that could start if it had nodes.
_FOR_NODES = ("BeginTime", "NodeDown", "None", "Priority", "ReqNodeNotAvail", "Resources")


def refused_launches(target: SlurmTarget, group: str) -> tuple[str, ...] | Unanswered:
    """Return AWS's errors of a node group's failed launches, each code with its words, once."""
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
    """Return what to do if AWS refuses nodes with these words."""
    reason = machine_reason(refused)
    return reason.fix.format(target=target.name) if reason else look_at_group(target, group)


def node_reasons(nodes: Iterable[SlurmNode]) -> tuple[str, ...]:
    """Return the reasons in Slurm why EC2 started no machine for nodes, each once."""
    return tuple(dict.fromkeys(node.reason for node in nodes if machine_reason(node.reason)))


def refused_workers(names: Iterable[str], answer: SlurmAnswer, target: SlurmTarget) -> tuple[str, ...]:
    """Return AWS's words on the workers for which some submission waits; empty if none does."""
    if not any(misses_nodes(name, answer) for name in names):
        return ()
    said = refused_launches(target, target.node_group)
    return (() if isinstance(said, Unanswered) else said) or node_reasons(answer.nodes)


def misses_nodes(name: str, answer: SlurmAnswer) -> bool:
    """Return True if a job of a submission waits for nodes, and launches of some have failed.

    While its nodes are starting it does not wait: an earlier refusal may be over.
    """
    for record in answer.jobs:
        is_waiting = record.name == name and translate(STATES, record.state) is JobState.WAITING
        if is_waiting and (record.reason or "None").startswith(_FOR_NODES):
            own = sum(attempt.job == record.id and attempt.is_of(record) for attempt in answer.attempts)
            if record.restarts > own or node_reasons(answer.nodes):
                return True
    return False
