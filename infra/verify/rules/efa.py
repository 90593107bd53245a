"""Rules for EFA: as many interfaces as the type has cards, groups open to themselves, close nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.infra.verify.rules.template import (
    LAUNCH_TEMPLATE,
    Finding,
    Properties,
    Template,
    as_list,
    efa_interfaces,
    in_cluster_group,
    is_capacity_block,
    launch_data,
    logical_id,
    resources,
    rule,
)
from slipway.jobs.words.catalogue.instances import find_instance_type

_POOL = "AWS::Batch::ComputeEnvironment"
_PCS_GROUP = "AWS::PCS::ComputeNodeGroup"


@rule("efa-interfaces")
def interfaces_fit_the_type(template: Template) -> Iterator[Finding]:
    """Check interfaces against the type: CloudFormation takes any, and EC2 refuses the launch."""
    types = _types_of_templates(template)
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        data = properties.get("LaunchTemplateData", {})
        interfaces = as_list(data.get("NetworkInterfaces"))
        yield from _wrong_order(name, interfaces)
        for sort in {
            interface.get("InterfaceType", "interface") for interface in interfaces
        } - _INTERFACE_TYPES:
            allowed = ", ".join(sorted(_INTERFACE_TYPES))
            yield Finding(name, f"InterfaceType is {sort}; allowed are {allowed}")
        count = len(efa_interfaces(data))
        for instance_type in types.get(name, ()):
            known = find_instance_type(instance_type)
            most = known.efa_interfaces if known else 0
            if count > most:
                allowed = f"{instance_type} has {most}"
                yield Finding(name, f"opens {count} EFA interfaces; {allowed}")
            without = known.first_efa_card if known else 0
            if any(each.get("NetworkCardIndex", 0) < without for each in efa_interfaces(data)):
                yield Finding(name, f"opens EFA on card 0; on {instance_type} it begins at card {without}")


@rule("efa-groups")
def groups_let_themselves_through(template: Template) -> Iterator[Finding]:
    """Require every group as its own source and destination: 0.0.0.0/0 does not cover EFA."""
    open_in = self_rules(template, "AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId")
    open_out = self_rules(template, "AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId")
    for name, properties in resources(template, LAUNCH_TEMPLATE):
        groups = {
            logical_id(group) or "of another stack"
            for each in efa_interfaces(properties.get("LaunchTemplateData", {}))
            for group in each["Groups"]
        }
        for group in sorted(groups):
            missing = [
                word for word, opened in (("ingress", open_in), ("egress", open_out)) if group not in opened
            ]
            if missing:
                what = f"EFA group {group} has no rule for all traffic with itself: {' and '.join(missing)}"
                yield Finding(name, f"{what}; add it in the group's template")


@rule("efa-together")
def nodes_are_close(template: Template) -> Iterator[Finding]:
    """Require one cluster placement group for nodes with EFA; a capacity block is close by itself."""
    for name, properties in resources(template, _POOL):
        pool = properties.get("ComputeResources", {})
        data = launch_data(template, _template_id(pool))
        if not efa_interfaces(data):
            continue
        if len(as_list(pool.get("Subnets"))) != 1:
            yield Finding(name, "nodes with EFA need exactly one subnet: EFA ends at its zone")
        if not is_capacity_block(data) and not in_cluster_group(template, pool.get("PlacementGroup")):
            yield Finding(name, "nodes with EFA need a placement group of strategy cluster")


def self_rules(template: Template, resource_type: str, other_end: str) -> set[str]:
    """Return the groups with a rule for all traffic with themselves, in one direction."""
    return {
        group
        for _, rule in resources(template, resource_type)
        if rule.get("IpProtocol") == "-1"
        and (group := logical_id(rule.get("GroupId")))
        and group == logical_id(rule.get(other_end))
    }


_INTERFACE_TYPES = frozenset({"interface", "efa", "efa-only"})


def _wrong_order(name: str, interfaces: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Require device 0 of card 0 first, which has the address and the route, and no place twice."""
    found = [(interface.get("NetworkCardIndex", 0), interface.get("DeviceIndex")) for interface in interfaces]
    devices = {device for _, device in found}
    if found and (found[0] != (0, 0) or len(set(found)) < len(found) or not devices <= {0, 1}):
        needs = "the first must be (0, 0), devices 0 or 1, and no two the same"
        yield Finding(where=name, message=f"(card, device) of its interfaces are {found}; {needs}")
    if interfaces and interfaces[0].get("InterfaceType") == "efa-only":
        message = "its first interface is efa-only, which has no address; use efa or interface"
        yield Finding(where=name, message=message)


def _types_of_templates(template: Template) -> dict[str, list[str]]:
    """Map templates to instance types, which they or their users name."""
    types: dict[str, list[str]] = {
        name: as_list(properties.get("LaunchTemplateData", {}).get("InstanceType"))
        for name, properties in resources(template, LAUNCH_TEMPLATE)
    }
    for _, properties in resources(template, _POOL):
        pool = properties.get("ComputeResources", {})
        target = logical_id(_template_id(pool))
        if target:
            types.setdefault(target, []).extend(as_list(pool.get("InstanceTypes")))
    for _, group in resources(template, _PCS_GROUP):
        target = logical_id(group.get("CustomLaunchTemplate", {}).get("TemplateId"))
        configs = as_list(group.get("InstanceConfigs"))
        types.setdefault(target or "", []).extend(each["InstanceType"] for each in configs)
    return types


def _template_id(pool: Properties) -> object:
    return pool.get("LaunchTemplate", {}).get("LaunchTemplateId")
