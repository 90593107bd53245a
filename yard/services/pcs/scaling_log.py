"""Writes PCS's scaling log: why a node got no instance, or lost one before it joined.

User guide, "Scaling logs in AWS PCS". It is delivered where CloudFormation made a delivery of it to a log
group, and tells nothing but failures here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from slipway.yard.cloudformation.resources.recorded import records
from slipway.yard.endpoint import ACCOUNT
from slipway.yard.machines import log_stream
from slipway.yard.services.recorded import StoredRecord

LOG_TYPE = "PCS_SCALING_LOGS"
LAUNCH_FAILED = "LAUNCH_FAILED"
BOOTSTRAP_FAILED = "BOOTSTRAP_FAILED"
_STREAM = "AWSLogs/PCS/{}/scaling.log"


def write(cluster: StoredRecord, node: str, *, status: str, reason: str, description: str) -> None:
    said = {
        "event_timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "cluster_id": cluster.facts["id"],
        "node_name": node,
        "status_code": status,
        "reason_code": reason,
        "description": description,
    }
    stream = _STREAM.format(cluster.facts["id"])
    for group in _log_groups(cluster):
        _make_stream(group, stream, cluster.region)
        log_stream.put([json.dumps(said).encode()], group, stream, cluster.region)


def _log_groups(cluster: StoredRecord) -> Iterator[str]:
    region = cluster.region
    sources = {
        each.properties["Name"]
        for each in records("AWS::Logs::DeliverySource", region)
        if (each.properties["ResourceArn"], each.properties["LogType"]) == (cluster.arn, LOG_TYPE)
    }
    destinations = {
        each.attributes.get("Arn"): str(each.properties.get("DestinationResourceArn", ""))
        for each in records("AWS::Logs::DeliveryDestination", region)
    }
    for delivery in records("AWS::Logs::Delivery", region):
        arn = destinations.get(delivery.properties["DeliveryDestinationArn"], "")
        if delivery.properties["DeliverySourceName"] in sources and ":log-group:" in arn:
            yield arn.partition(":log-group:")[2].removesuffix(":*")


def _make_stream(group: str, name: str, region: str) -> None:
    from moto.logs.models import logs_backends

    found = logs_backends[ACCOUNT][region].groups.get(group)
    if found and name not in found.streams:
        logs_backends[ACCOUNT][region].create_log_stream(group, name)
