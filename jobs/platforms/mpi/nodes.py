"""The machines of an MPI cluster, seen from a laptop: which run, which answered, how to start enough of them.

The group may have scaled to nothing since the last job; submitting a job says so, and starts what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.platforms.on_clusters import ONLINE, agent_state
from slipway.jobs.platforms.reasons import machine_reason
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.mpi import READY_KEY, Answer, Member, answers_of, decode_readiness, order_members
from slipway.jobs.words.names import CLUSTER_TAG, cap_alarm_name, idle_alarm_name
from slipway.jobs.words.targets import MpiTarget
from slipway.jobs.words.text import Say

WAIT_SECONDS = 900.0  # a machine boots, joins and answers in two or three minutes
_POLL_SECONDS = 2.0


class NotEnoughNodes(SlipwayError):
    """Too few nodes are ready, so nothing was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    pause: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


def find_answers(target: MpiTarget) -> list[Answer]:
    """Return the answers of the machines that run now, the main node first."""
    answer = find_object(
        reader("s3", target.region),
        "GetObject",
        Bucket=target.bucket,
        Key=READY_KEY,
        ExpectedBucketOwner=target.account,
    )
    readiness = decode_readiness(answer["Body"].read().decode()) if answer else None
    answers = answers_of(find_members(target.name, target.region), readiness)
    return with_agent(with_failures(answers, target.region), target.region)


def await_nodes(target: MpiTarget, nodes: int, say: Say, clock: Clock | None = None) -> str:
    """Wait until enough nodes have answered for the job; return the instance of the main node."""
    clock = clock or Clock()
    ends, said = clock.now() + WAIT_SECONDS, ""
    answers = find_answers(target)
    if not _are_enough(answers, nodes):
        _await_alarms(target, say, clock, ends)
        _start_missing(target, nodes, len(answers), say)
    while not _are_enough(answers, nodes):
        if lasting := [answer for answer in answers[:nodes] if answer.lasts]:
            raise NotEnoughNodes(
                f"{shortage(target, answers, nodes)}; waiting does not fix that, so nothing was submitted",
                hint=f"fix {lasting[0].name}, or end its instance {lasting[0].instance_id}: "
                "its group starts another",
            )
        if clock.now() > ends:
            raise NotEnoughNodes(
                f"{shortage(target, answers, nodes)} after {WAIT_SECONDS / 60:.0f} minutes",
                hint=f"slipway status --on {target.name} --nodes; end a machine that does not come up, and "
                "its group starts another",
            )
        if (state := shortage(target, answers, nodes)) != said:
            say(said := state)
        clock.pause(_POLL_SECONDS)
        answers = find_answers(target)
    return answers[0].instance_id


def shortage(target: MpiTarget, answers: Sequence[Answer], nodes: int) -> str:
    """Say in one line how many nodes are ready, and why the others are not."""
    ready = sum(answer.answered for answer in answers[:nodes])
    silent = [f"{each.name}: {each.why}" for each in answers[:nodes] if not each.answered]
    if len(answers) < nodes:
        failure = launch_failure(target)
        why = failure.words if isinstance(failure, Unanswered) else "; ".join(filter(None, failure))
        silent.append(f"{nodes - len(answers)} not running{f': {why}' if why else ''}")
    return f"{ready} of {nodes} nodes of {target.name} are ready ({'; '.join(silent)})"


def _are_enough(answers: Sequence[Answer], nodes: int) -> bool:
    """Return True if the first nodes, as many as the job needs, have all answered."""
    return len(answers) >= nodes and all(answer.answered for answer in answers[:nodes])


def _await_alarms(target: MpiTarget, say: Say, clock: Clock, ends: float) -> None:
    """Wait while an alarm stops the cluster: it scales the group to zero as long as it is on.

    SetAlarmState would not help: the alarm gets its true state again with the next evaluation, and acts again
    (API reference, "SetAlarmState"). It turns off by itself after the first period in which no node ran.
    """
    names = [idle_alarm_name(target.name), cap_alarm_name(target.name)]  # some clusters have none
    cloudwatch, said = reader("cloudwatch", target.region), False
    while on := [
        alarm["AlarmName"]
        for alarm in cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
        if alarm["StateValue"] == "ALARM"
    ]:
        if clock.now() > ends:
            raise NotEnoughNodes(
                f"alarm {on[0]} stops the nodes of {target.name}, and is still on after "
                f"{WAIT_SECONDS / 60:.0f} minutes",
                hint=f"aws cloudwatch describe-alarms --alarm-names {on[0]} --region {target.region}",
            )
        if not said:
            say(f"{target.name} is just being stopped by its alarm {on[0]}; waiting for that, some minutes")
            said = True
        clock.pause(_POLL_SECONDS)


def _start_missing(target: MpiTarget, nodes: int, running: int, say: Say) -> None:
    scaling = reader("autoscaling", target.region)
    groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[target.node_group])
    if not groups["AutoScalingGroups"]:
        raise NotEnoughNodes(
            f"the group {target.node_group} of cluster '{target.name}' is gone",
            hint=f"cdk deploy {target.name}",
        )
    group = groups["AutoScalingGroups"][0]
    if group["MaxSize"] < nodes:
        raise DoesNotFit(
            f"the job asks for {nodes} nodes, but group {target.node_group} has at most {group['MaxSize']}",
            hint="ask for fewer, or raise max_nodes in clusters.py and deploy",
        )
    if group["DesiredCapacity"] < nodes:
        say(f"{target.name} has {running} of {nodes} nodes; its group is told to start the others")
        aws.client("autoscaling", target.region).set_desired_capacity(
            AutoScalingGroupName=target.node_group, DesiredCapacity=nodes, HonorCooldown=False
        )


# The nodes of an MPI cluster now, asked of EC2: nodes and laptops get the same ones in the same order.


def find_members(cluster: str, region: str) -> list[Member]:
    """Find the nodes of a cluster, the main node first."""
    return order_members(_instances(cluster, region, ["running"]))


def count_left(target: MpiTarget) -> int:
    """Count the machines that run, and those that still shut down: these write until they are off."""
    states = ["pending", "running", "stopping", "shutting-down"]
    return sum(1 for _ in _instances(target.name, target.region, states))


def _instances(cluster: str, region: str, states: list[str]) -> Iterator[Any]:
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": states},
    ]
    pages = reader("ec2", region).get_paginator("describe_instances").paginate(Filters=filters)
    reservations = (reservation for page in pages for reservation in page["Reservations"])
    return (instance for reservation in reservations for instance in reservation["Instances"])


# The Systems Manager agent of the main node, which every command needs. It registers by itself some time
# after the boot, maybe after the node has joined and answered the others: SendCommand then refuses with
# InvalidInstanceId (API reference: "SSM Agent isn't registered with the SSM endpoint").
_SILENT = "Systems Manager does not reach its agent yet"


def with_agent(answers: Sequence[Answer], region: str) -> list[Answer]:
    """Mark the main node as not ready while Systems Manager would refuse a command to it."""
    if not answers or not answers[0].answered:
        return list(answers)
    main = answers[0]
    if agent_state(main.instance_id, region) == ONLINE:
        return list(answers)
    return [replace(main, answered=False, why=_SILENT), *answers[1:]]


# Machines of an MPI cluster that did not come up: they cannot say so themselves, so EC2 is asked.
_IMPAIRED = "impaired"  # it failed a status check (EC2 user guide, "Status checks")
_FAILED = "Failed"  # of a scaling activity (Auto Scaling API reference, Activity)
_SAYS_NOTHING = "its console says nothing; look at the instance in EC2"


def with_failures(answers: Sequence[Answer], region: str) -> list[Answer]:
    """Mark machines that failed EC2's status check: they will not come up by waiting.

    A machine that has answered is marked, too: what it lacks now, a job would miss.
    """
    if not answers:
        return []
    instances = [answer.instance_id for answer in answers]
    found = ask_all(
        reader("ec2", region), "DescribeInstanceStatus", "InstanceStatuses", InstanceIds=instances
    )
    if isinstance(found, Unanswered):  # without permission to ask, the wait is as long as before
        return list(answers)
    failed = {str(each["InstanceId"]) for each in found if each["InstanceStatus"]["Status"] == _IMPAIRED}
    return [_failure(answer, region) if answer.instance_id in failed else answer for answer in answers]


def launch_failure(target: MpiTarget) -> tuple[str, str] | Unanswered:
    """Return why the group's last launch failed, and what to do; empty if none did."""
    answer = ask(
        reader("autoscaling", target.region),
        "DescribeScalingActivities",
        AutoScalingGroupName=target.node_group,
        MaxRecords=1,
    )
    if isinstance(answer, Unanswered):
        return answer
    activities = answer["Activities"]
    if not activities or activities[0].get("StatusCode") != _FAILED:
        return "", ""
    said = str(activities[0].get("StatusMessage") or "AWS does not say why")
    reason = machine_reason(said)
    return (reason.means, reason.fix.format(target=target.name)) if reason else (said, "")


def _failure(answer: Answer, region: str) -> Answer:
    said = ask(reader("ec2", region), "GetConsoleOutput", InstanceId=answer.instance_id)
    text = "" if isinstance(said, Unanswered) else str(said.get("Output") or "")  # botocore has decoded it
    last = text.strip().rpartition("\n")[2] or _SAYS_NOTHING
    return replace(answer, answered=False, why=f"it did not come up: {last}", lasts=True)
