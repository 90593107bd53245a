"""EventBridge rules."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import ApiResource, find, mirrored, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ResourceScope, live, prop
from slipway.yard.cloudformation.resources.tags import tags


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


RULE = ApiResource(
    service="events",
    name=Name(property="Name", limit=64),
    create_call=shaped("put_rule"),
    identity=lambda scope: "|".join(
        part for part in (scope.properties.get("EventBusName"), scope.properties["Name"]) if part
    ),
    describe=find(
        "describe_rule", "", Name=lambda scope: scope.id.rpartition("|")[2], EventBusName=prop("EventBusName")
    ),
    attributes={"Arn": live("Arn"), "RuleName": live("Name")},
    settings=(
        setting(
            "Description",
            "EventPattern",
            "RoleArn",
            "ScheduleExpression",
            "State",
            put=shaped("put_rule", Name=lambda scope: scope.id.rpartition("|")[2], Tags=None),
            on_create=False,
        ),
        setting("Targets", put=put_targets),
        tags(ResourceARN=rule_arn),
    ),
    delete_call=delete_rule,
    reads=mirrored("Description", "EventPattern", "ScheduleExpression", "State"),
)

PROVIDERS: Mapping[str, Provider] = {"AWS::Events::Rule": RULE}
