"""SQS: queues and their policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop, response
from slipway.yard.cloudformation.resources.tags import as_map, changes

ATTRIBUTES = (
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoThroughputLimit",
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)


def attributes(scope: ResourceScope) -> dict[str, str]:
    """SQS keeps every attribute as text."""
    given = {name: scope.properties[name] for name in (*ATTRIBUTES, "FifoQueue") if name in scope.properties}
    return {name: _text(value) for name, value in given.items()}


def change(scope: ResourceScope) -> None:
    wanted = {name: value for name, value in attributes(scope).items() if name != "FifoQueue"}
    if wanted:
        scope.send("set_queue_attributes", QueueUrl=scope.id, Attributes=wanted)


def retag(scope: ResourceScope) -> None:
    added, removed = changes(scope, "Tags")
    if removed:
        scope.send("untag_queue", QueueUrl=scope.id, TagKeys=removed)
    if added:
        scope.send("tag_queue", QueueUrl=scope.id, Tags=added)


def put_policy(scope: ResourceScope) -> None:
    policy = json.dumps(scope.properties["PolicyDocument"])
    for queue in scope.properties["Queues"]:
        scope.send("set_queue_attributes", QueueUrl=queue, Attributes={"Policy": policy})
    _drop(scope, [one for one in scope.before.get("Queues", ()) if one not in scope.properties["Queues"]])


def drop_policy(scope: ResourceScope) -> None:
    _drop(scope, scope.properties["Queues"])


def _drop(scope: ResourceScope, queues: list[str]) -> None:
    for queue in queues:
        scope.send("set_queue_attributes", QueueUrl=queue, Attributes={"Policy": ""})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


QUEUE = ApiResource(
    service="sqs",
    name=Name(property="QueueName", limit=80),
    create_call=call(
        "create_queue",
        QueueName=prop("QueueName"),
        Attributes=attributes,
        tags=lambda scope: as_map(scope.properties, "Tags") or None,
    ),
    identity=response("QueueUrl"),
    describe=find("get_queue_attributes", "Attributes", QueueUrl=ID, AttributeNames=["All"]),
    attributes={
        "QueueUrl": ID,
        "Arn": lambda scope: scope.live.get("QueueArn"),
        "QueueName": lambda scope: scope.id.rpartition("/")[2],
    },
    settings=(
        setting(*ATTRIBUTES, put=change, on_create=False),
        setting("Tags", put=retag, on_create=False),
    ),
    delete_call=call("delete_queue", QueueUrl=ID),
    accepts=frozenset({"QueueName", "FifoQueue", "Tags", *ATTRIBUTES}),
)

QUEUE_POLICY = ApiResource(
    service="sqs",
    create_call=lambda _scope: {},
    identity=lambda scope: scope.context.default_name,
    attributes={"Id": ID},
    settings=(setting("PolicyDocument", "Queues", put=put_policy),),
    delete_call=drop_policy,
)

PROVIDERS: Mapping[str, Provider] = {"AWS::SQS::Queue": QUEUE, "AWS::SQS::QueuePolicy": QUEUE_POLICY}
