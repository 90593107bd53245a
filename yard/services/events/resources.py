"""EventBridge: buses, and rules on them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, text


def put_targets(scope: ResourceScope) -> None:
    targets = scope.properties.get("Targets") or []
    kept = {target["Id"] for target in targets}
    gone = [target["Id"] for target in scope.before.get("Targets") or [] if target["Id"] not in kept]
    place = {"Rule": scope.id.rpartition("|")[2], "EventBusName": scope.properties.get("EventBusName")}
    if gone:
        scope.send("remove_targets", **place, Ids=gone)
    if targets:
        scope.send("put_targets", **place, Targets=targets)


def delete_rule(scope: ResourceScope) -> None:
    """EventBridge refuses to delete a rule that still has targets."""
    name, bus = scope.id.rpartition("|")[2], scope.properties.get("EventBusName")
    targets = scope.send("list_targets_by_rule", Rule=name, EventBusName=bus)["Targets"]
    if targets:
        scope.send("remove_targets", Rule=name, EventBusName=bus, Ids=[target["Id"] for target in targets])
    scope.send("delete_rule", Name=name, EventBusName=bus)


def rule_arn(scope: ResourceScope) -> str:
    place = f"arn:aws:events:{scope.context.region}:{scope.context.account}:rule"
    return f"{place}/{scope.id.replace('|', '/')}"


def put_policy(scope: ResourceScope) -> None:
    policy = scope.properties.get("Policy")
    text_of_it = json.dumps(policy) if isinstance(policy, Mapping) else policy
    if text_of_it:
        scope.send("put_permission", EventBusName=scope.id, Policy=text_of_it)
    else:
        scope.send("remove_permission", EventBusName=scope.id, RemoveAllPermissions=True)


PROVIDERS: Mapping[str, Provider] = {
    "AWS::Events::EventBus": ApiResource(
        service="events",
        create_call=shaped("create_event_bus", Tags=prop("Tags")),
        identity=prop("Name"),
        describe=find("describe_event_bus", "", Name=ID),
        attributes={"Arn": live("Arn"), "Name": live("Name")},
        settings=(
            setting("Policy", put=put_policy),
            tags(ResourceARN=text("arn:aws:events:{region}:{account}:event-bus/{id}")),
        ),
        delete_call=call("delete_event_bus", Name=ID),
        accepts=frozenset({"Name", "Tags"}),
    ),
    "AWS::Events::Rule": ApiResource(
        service="events",
        name=Name(property="Name", limit=64),
        create_call=shaped("put_rule"),
        identity=lambda scope: "|".join(
            part for part in (scope.properties.get("EventBusName"), scope.properties["Name"]) if part
        ),
        describe=find(
            "describe_rule",
            "",
            Name=lambda scope: scope.id.rpartition("|")[2],
            EventBusName=prop("EventBusName"),
        ),
        attributes={"Arn": live("Arn"), "RuleName": live("Name")},
        settings=(
            changeable(
                "Description EventPattern RoleArn ScheduleExpression State",
                put=shaped("put_rule", Name=lambda scope: scope.id.rpartition("|")[2], Tags=None),
            ),
            setting("Targets", put=put_targets),
            tags(ResourceARN=rule_arn),
        ),
        delete_call=delete_rule,
        reads=mirrored("Description EventPattern ScheduleExpression State"),
    ),
}
