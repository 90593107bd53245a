"""Elastic Load Balancing: load balancers, target groups, listeners and rules. No traffic goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response
from slipway.yard.cloudformation.resources.tags import changes

TARGET_HEALTH = (
    "HealthCheckEnabled",
    "HealthCheckIntervalSeconds",
    "HealthCheckPath",
    "HealthCheckPort",
    "HealthCheckProtocol",
    "HealthCheckTimeoutSeconds",
    "HealthyThresholdCount",
    "Matcher",
    "UnhealthyThresholdCount",
)


def retag(scope: ResourceScope) -> None:
    added, removed = changes(scope, "Tags")
    if removed:
        scope.send("remove_tags", ResourceArns=[scope.id], TagKeys=removed)
    if added:
        scope.send("add_tags", ResourceArns=[scope.id], Tags=added)


def full_name(scope: ResourceScope) -> str:
    """The last part of its ARN, as CloudWatch's dimensions name it."""
    return scope.id.rpartition(":")[2].removeprefix("loadbalancer/")


def register(scope: ResourceScope) -> None:
    now, before = scope.properties.get("Targets") or [], scope.before.get("Targets") or []
    if gone := [one for one in before if one not in now]:
        scope.send("deregister_targets", TargetGroupArn=scope.id, Targets=gone)
    if new := [one for one in now if one not in before]:
        scope.send("register_targets", TargetGroupArn=scope.id, Targets=new)


def attributes_of(operation: str, member: str, name: str) -> Any:
    return call(operation, **{member: ID, "Attributes": prop(name, [])})


def first_certificate(scope: ResourceScope) -> list[Any] | None:
    """A listener is made with one certificate; the others are added to it."""
    return (scope.properties.get("Certificates") or [])[:1] or None


TAGS = setting("Tags", put=retag, on_create=False)

LOAD_BALANCER = ApiResource(
    service="elbv2",
    name=Name(property="Name", limit=32),
    create_call=shaped("create_load_balancer"),
    identity=response("LoadBalancers.0.LoadBalancerArn"),
    describe=find("describe_load_balancers", "LoadBalancers.0", LoadBalancerArns=[ID]),
    attributes={
        "LoadBalancerArn": ID,
        "CanonicalHostedZoneID": live("CanonicalHostedZoneId"),
        "DNSName": live("DNSName"),
        "LoadBalancerFullName": full_name,
        "LoadBalancerName": live("LoadBalancerName"),
        "SecurityGroups": live("SecurityGroups", []),
    },
    settings=(
        setting(
            "LoadBalancerAttributes",
            put=attributes_of("modify_load_balancer_attributes", "LoadBalancerArn", "LoadBalancerAttributes"),
        ),
        setting(
            "SecurityGroups",
            put=call("set_security_groups", LoadBalancerArn=ID, SecurityGroups=prop("SecurityGroups", [])),
            on_create=False,
        ),
        setting(
            "Subnets", put=call("set_subnets", LoadBalancerArn=ID, Subnets=prop("Subnets")), on_create=False
        ),
        setting("IpAddressType", put=shaped("set_ip_address_type", LoadBalancerArn=ID), on_create=False),
        TAGS,
    ),
    delete_call=call("delete_load_balancer", LoadBalancerArn=ID),
    accepts=frozenset({"Tags"}),
)

TARGET_GROUP = ApiResource(
    service="elbv2",
    name=Name(property="Name", limit=32),
    create_call=shaped("create_target_group"),
    identity=response("TargetGroups.0.TargetGroupArn"),
    describe=find("describe_target_groups", "TargetGroups.0", TargetGroupArns=[ID]),
    attributes={
        "TargetGroupArn": ID,
        "TargetGroupName": live("TargetGroupName"),
        "TargetGroupFullName": lambda scope: scope.id.rpartition(":")[2],
        "LoadBalancerArns": live("LoadBalancerArns", []),
    },
    settings=(
        setting(*TARGET_HEALTH, put=shaped("modify_target_group", TargetGroupArn=ID), on_create=False),
        setting(
            "TargetGroupAttributes",
            put=attributes_of("modify_target_group_attributes", "TargetGroupArn", "TargetGroupAttributes"),
        ),
        setting("Targets", put=register),
        TAGS,
    ),
    delete_call=call("delete_target_group", TargetGroupArn=ID),
    accepts=frozenset({"Tags"}),
)

LISTENER = ApiResource(
    service="elbv2",
    create_call=shaped("create_listener", Certificates=first_certificate),
    identity=response("Listeners.0.ListenerArn"),
    describe=find("describe_listeners", "Listeners.0", ListenerArns=[ID]),
    attributes={"ListenerArn": ID},
    settings=(
        setting(
            *("AlpnPolicy", "Certificates", "DefaultActions", "Port", "Protocol", "SslPolicy"),
            put=shaped("modify_listener", ListenerArn=ID, Certificates=first_certificate),
            on_create=False,
        ),
        TAGS,
    ),
    delete_call=call("delete_listener", ListenerArn=ID),
    accepts=frozenset({"Certificates", "Tags"}),
)

LISTENER_RULE = ApiResource(
    service="elbv2",
    create_call=shaped("create_rule"),
    identity=response("Rules.0.RuleArn"),
    describe=find("describe_rules", "Rules.0", RuleArns=[ID]),
    attributes={"RuleArn": ID, "IsDefault": live("IsDefault", False)},
    settings=(
        setting("Actions", "Conditions", put=shaped("modify_rule", RuleArn=ID), on_create=False),
        setting(
            "Priority",
            put=lambda scope: scope.send(
                "set_rule_priorities",
                RulePriorities=[{"RuleArn": scope.id, "Priority": scope.properties["Priority"]}],
            ),
            on_create=False,
        ),
        TAGS,
    ),
    delete_call=call("delete_rule", RuleArn=ID),
    accepts=frozenset({"Tags"}),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::ElasticLoadBalancingV2::LoadBalancer": LOAD_BALANCER,
    "AWS::ElasticLoadBalancingV2::TargetGroup": TARGET_GROUP,
    "AWS::ElasticLoadBalancingV2::Listener": LISTENER,
    "AWS::ElasticLoadBalancingV2::ListenerRule": LISTENER_RULE,
}
