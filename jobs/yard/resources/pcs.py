"""AWS PCS: clusters, compute node groups and queues, made through the yard's own PCS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.yard.resources.api import ApiResource, call, find, mirrored, setting, shaped
from jobs.yard.resources.names import Name
from jobs.yard.resources.provider import Provider
from jobs.yard.resources.scope import ID, Expression, Scope, live, prop, response, snake
from jobs.yard.resources.tags import tags

# PCS limits the names of its three resources to this many characters.
NODE_GROUP = "computeNodeGroup"
NAME = {"cluster": 40, NODE_GROUP: 25, "queue": 25}


def key(scope: Scope) -> str:
    """PCS takes an id where CloudFormation keeps the ARN, whose last part it is."""
    return scope.id.rpartition("/")[2]


def launch_template(scope: Scope) -> dict[str, str] | None:
    """The template says TemplateId where PCS's request says id."""
    given = scope.properties.get("CustomLaunchTemplate")
    return {"id": given["TemplateId"], "version": str(given["Version"])} if given else None


def read_launch_template(scope: Scope) -> dict[str, str]:
    found = scope.live["customLaunchTemplate"]
    return {"TemplateId": found["id"], "Version": found["version"]}


def scheduler_version(scope: Scope) -> dict[str, str] | None:
    """Of the scheduler only the version can change, and PCS refuses one that does not."""
    old, new = scope.before.get("Scheduler"), scope.properties["Scheduler"]
    return None if old == new else {"version": new["Version"]}


def pcs_resource(kind: str, *changeable: str) -> ApiResource:
    """`kind` is what PCS's calls and answers call it; `changeable` is what its update call takes."""
    operation = snake(kind)
    identifier = f"{kind}Identifier"
    parent: dict[str, Expression] = {} if kind == "cluster" else {"clusterIdentifier": prop("ClusterId")}
    which: dict[str, Any] = {**parent, identifier: key}
    written: dict[str, Any] = {"customLaunchTemplate": launch_template} if kind == NODE_GROUP else {}
    reads = {"CustomLaunchTemplate": read_launch_template} if kind == NODE_GROUP else {}
    changed: dict[str, Any] = {"scheduler": scheduler_version} if kind == "cluster" else {}
    update = shaped(f"update_{operation}", **which, **written, **changed)
    return ApiResource(
        service="pcs",
        name=Name(property="Name", limit=NAME[kind]),
        create_call=shaped(f"create_{operation}", renames={"Name": f"{kind}Name"}, **parent, **written),
        identity=response(f"{kind}.arn"),
        describe=find(f"get_{operation}", kind, **which),
        attributes={
            "Arn": ID,
            "Id": live("id"),
            "Status": live("status"),
            "ErrorInfo": live("errorInfo", []),
            **({"Endpoints": live("endpoints", [])} if kind == "cluster" else {}),
        },
        settings=(
            setting(*changeable, put=update, on_create=False),
            tags(resourceArn=ID),
        ),
        delete_call=call(f"delete_{operation}", **which),
        reads={**mirrored(*changeable), **reads},
        accepts=frozenset({"ClusterId"} if parent else ()),
    )


PROVIDERS: Mapping[str, Provider] = {
    "AWS::PCS::Cluster": pcs_resource("cluster", "Scheduler", "SlurmConfiguration"),
    "AWS::PCS::ComputeNodeGroup": pcs_resource(
        NODE_GROUP,
        "AmiId",
        "CustomLaunchTemplate",
        "IamInstanceProfileArn",
        "NodeLifecycleActions",
        "PurchaseOption",
        "ScalingConfiguration",
        "SlurmConfiguration",
        "SpotOptions",
        "SubnetIds",
    ),
    "AWS::PCS::Queue": pcs_resource("queue", "ComputeNodeGroupConfigurations", "SlurmConfiguration"),
}
