"""ParallelCluster's custom resource: a cluster is checked and recorded. No head node starts and no job runs.

Sources: ParallelCluster user guide, "Amazon CloudFormation custom resource", "Cluster configuration file".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.recorded import Form, SchemaRecord
from slipway.yard.cloudformation.resources.registry import LAMBDA, no_function
from slipway.yard.cloudformation.resources.scope import ResourceScope, pick, prop, text
from slipway.yard.errors import CUSTOM_RESOURCE_FAILED, ApiError, validation_error

CLUSTER = "Custom::PclusterCluster"
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]{0,59}")
REQUIRED = (
    *("Image.Os", "HeadNode.InstanceType", "HeadNode.Networking.SubnetId"),
    *("Scheduling.Scheduler", "Scheduling.SlurmQueues.0.Name"),
)
HEAD_NODE_TYPE = "ClusterConfiguration.HeadNode.InstanceType"
# There is no head node, so its addresses are from the ranges for documentation (RFC 5737).
KEPT = SchemaRecord(
    type=CLUSTER,
    form=Form(
        identity=prop("ClusterName"),
        attributes={
            "clusterName": prop("ClusterName"),
            "clusterStatus": "CREATE_COMPLETE",
            "cloudFormationStackStatus": "CREATE_COMPLETE",
            "cloudformationStackArn": text("arn:aws:cloudformation:{region}:{account}:stack/{id}/kept"),
            "region": text("{region}"),
            "headNode.instanceId": "i-00000000000000000",
            "headNode.instanceType": lambda scope: pick(scope.properties, HEAD_NODE_TYPE),
            "headNode.privateIpAddress": "192.0.2.1",
            "headNode.publicIpAddress": "198.51.100.1",
            "headNode.state": "pending",
            "loginNodes.address": "login.example.com",
            "validationMessages": "[]",
        },
    ),
)


class ParallelCluster:
    """Records a cluster under its name, as its template describes it."""

    def create(self, context: Context, properties: Properties) -> Resource:
        token = str(properties.get("ServiceToken", ""))
        if LAMBDA not in token:
            raise validation_error(no_function(context.logical_id, token))
        _check(context, properties)
        return KEPT.create(context, properties)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        if new.get("ClusterName") != resource.physical_id:
            raise _failed("Cannot update the ClusterName in the properties.")
        _check(context, new)
        return KEPT.create(context, new)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        KEPT.delete(context, resource, properties)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        return KEPT.read(context, resource, properties)


def _check(context: Context, properties: Properties) -> None:
    """Raise ApiError for what ParallelCluster refuses in nearly every broken template."""
    name, given = str(properties.get("ClusterName", "")), properties.get("ClusterConfiguration")
    if not NAME.fullmatch(name):
        raise _failed(
            f"Bad Request: '{name}' does not match '^[a-zA-Z][a-zA-Z0-9-]{{0,59}}$' - 'clusterName'"
        )
    required = REQUIRED if pick(given, "Scheduling.Scheduler") in (None, "slurm") else REQUIRED[:-1]
    missing = [path for path in required if pick(given, path) is None]
    if missing:
        raise _failed(f"Invalid cluster configuration: missing {', '.join(missing)}")
    scope = ResourceScope(context=context, service="ec2", properties=properties)
    for subnet in dict.fromkeys(_named(given, "SubnetId", "SubnetIds")):
        scope.send("describe_subnets", SubnetIds=[subnet])
    for key in dict.fromkeys(_named(given, "KeyName")):
        scope.send("describe_key_pairs", KeyNames=[key])


def _named(value: Any, *names: str) -> list[str]:
    """Return every value under one of these keys, at any depth."""
    if isinstance(value, list):
        return [found for item in value for found in _named(item, *names)]
    if not isinstance(value, Mapping):
        return []
    direct = [item for name in names for item in _listed(value.get(name))]
    return direct + [found for item in value.values() for found in _named(item, *names)]


def _listed(value: Any) -> list[str]:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return [value] if isinstance(value, str) else []


def _failed(message: str) -> ApiError:
    return ApiError(
        CUSTOM_RESOURCE_FAILED, f"Received response status [FAILED] from custom resource: {message}"
    )


PROVIDERS: Mapping[str, Provider] = {CLUSTER: ParallelCluster()}
