"""SageMaker: HyperPod clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, response
from slipway.yard.cloudformation.resources.tags import tags
from slipway.yard.errors import ApiError


def create_cluster(scope: ResourceScope) -> dict[str, Any]:
    """Create a cluster on HyperPod; one that fails is taken away again, with HyperPod's reason."""
    made = shaped("create_cluster")(scope)
    found = scope.send("describe_cluster", ClusterName=made["ClusterArn"])
    if found["ClusterStatus"] == "Failed":
        scope.send("delete_cluster", ClusterName=made["ClusterArn"])
        raise ApiError("NotStabilized", found["FailureMessage"])
    return made


def update_cluster(scope: ResourceScope) -> None:
    """Change groups and recovery; a group that the template left out is deleted."""
    groups = scope.properties.get("InstanceGroups") or []
    left = {group["InstanceGroupName"] for group in groups}
    before = [group["InstanceGroupName"] for group in scope.before.get("InstanceGroups") or ()]
    gone = [name for name in before if name not in left]
    scope.send(
        "update_cluster",
        ClusterName=scope.id,
        InstanceGroups=groups,
        NodeRecovery=scope.properties.get("NodeRecovery"),
        **({"InstanceGroupsToDelete": gone} if gone else {}),
    )


CLUSTER = ApiResource(
    service="sagemaker",
    name=Name(property="ClusterName", limit=63),
    create_call=create_cluster,
    identity=response("ClusterArn"),
    describe=find("describe_cluster", "", ClusterName=ID),
    attributes={
        "ClusterArn": ID,
        "ClusterStatus": live("ClusterStatus"),
        "CreationTime": lambda scope: str(scope.live["CreationTime"]),
        "FailureMessage": live("FailureMessage", ""),
    },
    settings=(
        setting("InstanceGroups", "NodeRecovery", put=update_cluster, on_create=False),
        tags("add_tags", "delete_tags", ResourceArn=ID),
    ),
    delete_call=call("delete_cluster", ClusterName=ID),
    accepts=frozenset(
        {
            "ClusterName",
            "InstanceGroups",
            "NodeProvisioningMode",
            "NodeRecovery",
            "Orchestrator",
            "Tags",
            "VpcConfig",
        }
    ),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::SageMaker::Cluster": CLUSTER,
}
