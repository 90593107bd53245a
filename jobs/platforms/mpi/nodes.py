"""The machines of an MPI cluster, seen from a laptop: who runs, who answered, how to have enough of them.

Its group may have scaled to nothing since the last job; submitting one says so, and starts what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import reader
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.platforms.mpi.agent import with_agent
from slipway.jobs.platforms.mpi.failures import launch_failure, with_failures
from slipway.jobs.platforms.mpi.members import find_members
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.mpi.mpi_nodes import READY_KEY, Answer, answers_of, decode_readiness
from slipway.jobs.words.names import cap_alarm_name, idle_alarm_name
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
    """Say in one line how many nodes there are, and why the others do not count."""
    ready = sum(answer.answered for answer in answers[:nodes])
    silent = [f"{each.name}: {each.why}" for each in answers[:nodes] if not each.answered]
    if len(answers) < nodes:
        why = "; ".join(filter(None, launch_failure(target)))
        silent.append(f"{nodes - len(answers)} not running{f': {why}' if why else ''}")
    return f"{ready} of {nodes} nodes of {target.name} are ready ({'; '.join(silent)})"


def _are_enough(answers: Sequence[Answer], nodes: int) -> bool:
    """Return True if the first nodes, as many as the job gets, have all answered."""
    return len(answers) >= nodes and all(answer.answered for answer in answers[:nodes])


def _await_alarms(target: MpiTarget, say: Say, clock: Clock, ends: float) -> None:
    """Wait while the cluster is being stopped: an alarm scales to none as long as it is on.

    SetAlarmState would not help: the alarm takes its true state again with the next evaluation, and acts anew
    (API reference, "SetAlarmState"). It goes off by itself with the first period in which no node ran.
    """
    said = False
    while on := _alarms_on(target):
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


def _alarms_on(target: MpiTarget) -> list[str]:
    """List the alarms that are on of those that stop nodes; some clusters have none."""
    names = [idle_alarm_name(target.name), cap_alarm_name(target.name)]
    found = reader("cloudwatch", target.region).describe_alarms(AlarmNames=names)["MetricAlarms"]
    return [each["AlarmName"] for each in found if each["StateValue"] == "ALARM"]


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
