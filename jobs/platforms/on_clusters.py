"""The common part of MPI and Slurm clusters, seen from a laptop: jobs' requests and names, and agents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, client, reader, sender
from slipway.jobs.words.job import NAME, CommandRequest, DamagedRequest, request_key
from slipway.jobs.words.names import (
    CLUSTER_DIMENSION,
    METRIC_NAMESPACE,
    NOT_JOINED_METRIC,
    REASON_DIMENSION,
    REASONS,
)
from slipway.jobs.words.run import Listed
from slipway.jobs.words.targets import MpiTarget, SlurmTarget, Target
from slipway.jobs.words.text import NewerRecord

ONLINE = "Online"  # Systems Manager API reference, InstanceInformation

R_co = TypeVar("R_co", covariant=True)


def send_command(request: CommandRequest, target: Target, taker: str) -> Mapping[str, Any]:
    """Send the request to the node of this id."""
    client("s3", target.region).put_object(**request.put)
    ssm = sender("ssm", target.region)
    sent: Mapping[str, Any] = ssm.send_command(**request.send_command, InstanceIds=[taker])
    return sent


class Decode(Protocol[R_co]):
    def __call__(self, text: str, *, where: str) -> R_co: ...


def read_request(name: str, target: MpiTarget | SlurmTarget, decode: Decode[R_co]) -> R_co | None:
    """Read a job's request; None if a person sent the job, or if it was deleted or is another Slipway's."""
    if not re.fullmatch(NAME, name):
        return None
    key = request_key(name)
    s3 = reader("s3", target.region)
    answer = ask(s3, "GetObject", Bucket=target.bucket, Key=key, ExpectedBucketOwner=target.account)
    if isinstance(answer, Unanswered):
        return None
    try:
        return decode(answer["Body"].read().decode(errors="replace"), where=key)
    except (DamagedRequest, NewerRecord):
        return None


def listed_once(jobs: Iterable[tuple[str, str, datetime | None]]) -> list[Listed]:
    """List jobs by id, name and time, the first one first; of jobs with the same name, the first was kept."""
    seen: set[str] = set()
    listed = []
    for job_id, name, created in jobs:
        listed.append(Listed(id=job_id, name=name, is_twin=name in seen, created_at=created))
        seen.add(name)
    return listed


def agent_state(instance_id: str, region: str) -> str:
    """Return Systems Manager's state of a node's agent; it refuses commands unless that is Online."""
    asked = [{"Key": "InstanceIds", "Values": [instance_id]}]
    said = ask(reader("ssm", region), "DescribeInstanceInformation", Filters=asked)
    if isinstance(said, Unanswered):  # without permission to ask, SendCommand itself will tell
        return ONLINE
    states = [str(known["PingStatus"]) for known in said["InstanceInformationList"]]
    return states[0] if states else "its agent has not registered"


# Why nodes of a cluster did not join it: each wrote its reason as a dimension of a metric.
RECENT = "PT3H"  # the only period that ListMetrics accepts


def why_nodes_did_not_join(cluster: str, region: str) -> tuple[str, ...] | Unanswered:
    """Return the reasons of the last three hours, in words."""
    found = ask_all(
        reader("cloudwatch", region),
        "ListMetrics",
        "Metrics",
        Namespace=METRIC_NAMESPACE,
        MetricName=NOT_JOINED_METRIC,
        Dimensions=[{"Name": CLUSTER_DIMENSION, "Value": cluster}, {"Name": REASON_DIMENSION}],
        RecentlyActive=RECENT,
    )
    if isinstance(found, Unanswered):
        return found
    reasons = {
        dimension["Value"]
        for metric in found
        for dimension in metric["Dimensions"]
        if dimension["Name"] == REASON_DIMENSION
    }
    return tuple(REASONS.get(reason, reason) for reason in sorted(reasons))
