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
NAME = {"cluster": 40, "computeNodeGroup": 25, "queue": 25}


def key(scope: Scope) -> str:
    """PCS takes an id where CloudFormation keeps the ARN, whose last part it is."""
    return scope.id.rpartition("/")[2]


def pcs_resource(kind: str, *changeable: str) -> ApiResource:
    """`kind` is what PCS's calls and answers call it; `changeable` is what its update call takes."""
    operation = snake(kind)
    identifier = f"{kind}Identifier"
    parent: dict[str, Expression] = {} if kind == "cluster" else {"clusterIdentifier": prop("ClusterId")}
    which: dict[str, Any] = {**parent, identifier: key}
    return ApiResource(
        service="pcs",
        name=Name(property="Name", limit=NAME[kind]),
        create_call=shaped(f"create_{operation}", renames={"Name": f"{kind}Name"}, **parent),
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
            setting(*changeable, put=shaped(f"update_{operation}", tags=None, **which), on_create=False),
            tags(resourceArn=ID),
        ),
        delete_call=call(f"delete_{operation}", **which),
        reads=mirrored(*changeable),
        accepts=frozenset({"ClusterId"} if parent else ()),
    )


PROVIDERS: Mapping[str, Provider] = {
    "AWS::PCS::Cluster": pcs_resource("cluster", "SlurmConfiguration"),
    "AWS::PCS::ComputeNodeGroup": pcs_resource(
        "computeNodeGroup",
        "AmiId",
        "CustomLaunchTemplate",
        "IamInstanceProfileArn",
        "PurchaseOption",
        "ScalingConfiguration",
        "SlurmConfiguration",
        "SpotOptions",
        "SubnetIds",
    ),
    "AWS::PCS::Queue": pcs_resource("queue", "ComputeNodeGroupConfigurations", "SlurmConfiguration"),
}
