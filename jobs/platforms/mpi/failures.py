"""Machines of an MPI cluster that did not come up, as EC2 sees it: no node is there to say so itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.platforms.reasons import machine_reason
from slipway.jobs.words.mpi.mpi_nodes import Answer
from slipway.jobs.words.targets import MpiTarget

_IMPAIRED = "impaired"  # it failed a status check (EC2 user guide, "Status checks")
_FAILED = "Failed"  # of a scaling activity (Auto Scaling API reference, Activity)
_SAYS_NOTHING = "its console says nothing; look at the instance in EC2"


def with_failures(answers: Sequence[Answer], region: str) -> list[Answer]:
    """Mark machines that failed EC2's status check: they will not come up by waiting.

    Also of one that has answered: what it lacks now, a job would miss.
    """
    failed = _failed([answer.instance_id for answer in answers], region)
    return [_failure(answer, region) if answer.instance_id in failed else answer for answer in answers]


def launch_failure(target: MpiTarget) -> tuple[str, str]:
    """Return why the group's last launch failed, and what to do; empty where none did or nobody may ask."""
    answer = ask(
        reader("autoscaling", target.region),
        "DescribeScalingActivities",
        AutoScalingGroupName=target.node_group,
        MaxRecords=1,
    )
    activities = [] if isinstance(answer, Unanswered) else answer["Activities"]
    if not activities or activities[0].get("StatusCode") != _FAILED:
        return "", ""
    said = str(activities[0].get("StatusMessage") or "AWS does not say why")
    reason = machine_reason(said)
    return (reason.means, reason.fix.format(target=target.name)) if reason else (said, "")


def _failed(instances: Sequence[str], region: str) -> set[str]:
    if not instances:
        return set()
    found = ask_all(
        reader("ec2", region), "DescribeInstanceStatus", "InstanceStatuses", InstanceIds=list(instances)
    )
    if isinstance(found, Unanswered):  # who may not ask, waits as long as before
        return set()
    return {str(each["InstanceId"]) for each in found if each["InstanceStatus"]["Status"] == _IMPAIRED}


def _failure(answer: Answer, region: str) -> Answer:
    said = ask(reader("ec2", region), "GetConsoleOutput", InstanceId=answer.instance_id)
    text = "" if isinstance(said, Unanswered) else str(said.get("Output") or "")  # botocore has decoded it
    last = text.strip().rpartition("\n")[2] or _SAYS_NOTHING
    return replace(answer, answered=False, why=f"it did not come up: {last}", lasts=True)
