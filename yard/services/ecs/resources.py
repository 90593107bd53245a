"""ECS: clusters and task definitions. No task runs: AWS Batch is what runs containers' programs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response
from slipway.yard.cloudformation.resources.tags import as_map, tags


def lower_tags(scope: ResourceScope) -> list[dict[str, str]] | None:
    return [{"key": key, "value": value} for key, value in as_map(scope.properties, "Tags").items()] or None


def change_cluster(scope: ResourceScope) -> None:
    scope.send(
        "update_cluster",
        cluster=scope.id,
        settings=scope.properties.get("ClusterSettings"),
        configuration=scope.properties.get("Configuration"),
    )


def put_providers(scope: ResourceScope) -> None:
    scope.send(
        "put_cluster_capacity_providers",
        cluster=scope.id,
        capacityProviders=scope.properties.get("CapacityProviders", []),
        defaultCapacityProviderStrategy=scope.properties.get("DefaultCapacityProviderStrategy", []),
    )


def _arn(scope: ResourceScope) -> str:
    return f"arn:aws:ecs:{scope.context.region}:{scope.context.account}:cluster/{scope.id}"


def find_cluster(scope: ResourceScope) -> Any:
    found = find("describe_clusters", "clusters", where="clusterName", clusters=[ID])(scope)
    return found if found and found.get("status") == "ACTIVE" else None


def find_definition(scope: ResourceScope) -> Any:
    found = find("describe_task_definition", "taskDefinition", taskDefinition=ID)(scope)
    return found if found and found.get("status") == "ACTIVE" else None


CLUSTER = ApiResource(
    service="ecs",
    name=Name(property="ClusterName", limit=255),
    create_call=shaped("create_cluster", renames={"ClusterSettings": "settings"}, tags=lower_tags),
    identity=prop("ClusterName"),
    describe=find_cluster,
    attributes={"Arn": live("clusterArn")},
    settings=(
        setting("ClusterSettings", "Configuration", put=change_cluster, on_create=False),
        setting("CapacityProviders", "DefaultCapacityProviderStrategy", put=put_providers, on_create=False),
        tags(resourceArn=_arn),
    ),
    delete_call=call("delete_cluster", cluster=ID),
    accepts=frozenset({"Tags"}),
)

TASK_DEFINITION = ApiResource(
    service="ecs",
    name=Name(property="Family", limit=255),
    create_call=shaped("register_task_definition", tags=lower_tags),
    identity=response("taskDefinition.taskDefinitionArn"),
    describe=find_definition,
    attributes={"TaskDefinitionArn": ID},
    settings=(tags(resourceArn=ID),),
    delete_call=call("deregister_task_definition", taskDefinition=ID),
    accepts=frozenset({"Tags"}),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::ECS::Cluster": CLUSTER,
    "AWS::ECS::TaskDefinition": TASK_DEFINITION,
}
