"""Resource types of AWS PCS: clusters, compute node groups and queues."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Expression,
    ResourceScope,
    live,
    prop,
    response,
    snake,
)
from slipway.yard.errors import ApiError

# The longest names that PCS allows, in characters.
NAME = {"cluster": 40, "computeNodeGroup": 25, "queue": 25}

ON_THE_WAY = ("CREATING", "UPDATING")
PATIENCE_S = 300.0
PAUSE_S = 0.2


def key(scope: ResourceScope) -> str:
    """Return the id for PCS's calls, the last part of the ARN that CloudFormation keeps."""
    return scope.id.rpartition("/")[2]


def launch_template(scope: ResourceScope) -> dict[str, str] | None:
    """Return the launch template for PCS's request, which has id for the template's TemplateId."""
    given = scope.properties.get("CustomLaunchTemplate")
    return {"id": given["TemplateId"], "version": str(given["Version"])} if given else None


def read_launch_template(scope: ResourceScope) -> dict[str, str]:
    found = scope.live["customLaunchTemplate"]
    return {"TemplateId": found["id"], "Version": found["version"]}


def scheduler_version(scope: ResourceScope) -> dict[str, str] | None:
    """Return a changed version, the only part that can change; PCS refuses an unchanged one."""
    old, new = scope.before.get("Scheduler"), scope.properties["Scheduler"]
    return None if old == new else {"version": new["Version"]}


IN_CLUSTER: Mapping[str, Expression] = {"clusterIdentifier": prop("ClusterId")}


def settled(look: Expression) -> Expression:
    """Return an expression that waits until PCS is done with the resource, as CloudFormation does."""

    def described(scope: ResourceScope) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = look(scope)
            if not found or found["status"] not in ON_THE_WAY:
                return found
            if time.monotonic() > deadline:
                raise ApiError("NotStabilized", f"Resource is {found['status']} for {PATIENCE_S:.0f} s.")
            time.sleep(PAUSE_S)

    return described


def pcs_resource(
    kind: str,
    properties: str,
    *,
    parent: Mapping[str, Expression] = IN_CLUSTER,
    written: Mapping[str, Expression] | None = None,
    changed: Mapping[str, Expression] | None = None,
) -> ApiResource:
    """Return the provider; `kind` is PCS's name in calls, `properties` are those of its update call.

    `written`: parameters that are translated, for both calls; `changed`: those of the update call only.
    """
    operation = snake(kind)
    which: dict[str, Any] = {**parent, f"{kind}Identifier": key}
    translated: dict[str, Any] = dict(written or {})
    updated: dict[str, Any] = {**which, **translated, **(changed or {})}
    return ApiResource(
        service="pcs",
        name=Name(property="Name", limit=NAME[kind]),
        create_call=shaped(f"create_{operation}", renames={"Name": f"{kind}Name"}, **parent, **translated),
        identity=response(f"{kind}.arn"),
        describe=settled(find(f"get_{operation}", kind, **which)),
        attributes={
            "Arn": ID,
            "Id": live("id"),
            "Status": live("status"),
            "ErrorInfo": live("errorInfo", []),
        },
        settings=(
            changeable(properties, put=shaped(f"update_{operation}", **updated)),
            tags(resourceArn=ID),
        ),
        delete_call=call(f"delete_{operation}", **which),
        reads=mirrored(properties),
        accepts="ClusterId" if parent else "",
    )


CLUSTER = pcs_resource(
    "cluster", "Scheduler SlurmConfiguration", parent={}, changed={"scheduler": scheduler_version}
)
NODE_GROUP = pcs_resource(
    "computeNodeGroup",
    "AmiId CustomLaunchTemplate IamInstanceProfileArn NodeLifecycleActions PurchaseOption"
    " ScalingConfiguration SlurmConfiguration SpotOptions SubnetIds",
    written={"customLaunchTemplate": launch_template},
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::PCS::Cluster": replace(
        CLUSTER, attributes={**CLUSTER.attributes, "Endpoints": live("endpoints", [])}
    ),
    "AWS::PCS::ComputeNodeGroup": replace(
        NODE_GROUP, reads={**NODE_GROUP.reads, "CustomLaunchTemplate": read_launch_template}
    ),
    "AWS::PCS::Queue": pcs_resource("queue", "ComputeNodeGroupConfigurations SlurmConfiguration"),
}
