"""The Systems Manager agent of the main node, through which every command comes to the cluster.

It registers by itself some time after a machine has booted. Nothing orders that before the unit that joins
the cluster, so a node may answer the others before it can be sent anything: SendCommand then refuses it with
InvalidInstanceId (API reference: "SSM Agent isn't registered with the SSM endpoint").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.words.mpi.mpi_nodes import Answer

_ONLINE = "Online"  # Systems Manager API reference, InstanceInformation
_SILENT = "Systems Manager does not reach its agent yet"


def with_agent(answers: Sequence[Answer], region: str) -> list[Answer]:
    """Mark the main node as not ready while Systems Manager would refuse a command to it."""
    if not answers or not answers[0].answered:
        return list(answers)
    main = answers[0]
    asked = [{"Key": "InstanceIds", "Values": [main.instance_id]}]
    said = ask(reader("ssm", region), "DescribeInstanceInformation", Filters=asked)
    if isinstance(said, Unanswered):  # who may not ask, is told by SendCommand itself
        return list(answers)
    if any(known["PingStatus"] == _ONLINE for known in said["InstanceInformationList"]):
        return list(answers)
    return [replace(main, answered=False, why=_SILENT), *answers[1:]]
