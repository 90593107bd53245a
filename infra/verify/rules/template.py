"""Reads a synthesized template: what rules need to know of CloudFormation, and the findings they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]  # JSON of any shape
Properties = Mapping[str, Any]
LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Says what is wrong and what to do; `where` is the logical id of the resource."""

    where: str
    message: str


Rule = Callable[[Template], Iterator[Finding]]


def resources(template: Template, *types: str) -> Iterator[tuple[str, Properties]]:
    """Yield logical ids and properties; a type that ends in :: matches all that begin with it."""
    for logical_id, resource in template.get("Resources", {}).items():
        sort = resource["Type"]
        if any(sort == each or (each.endswith("::") and sort.startswith(each)) for each in types):
            yield logical_id, resource.get("Properties", {})


def logical_id(value: object) -> str | None:
    """Return the target of a Ref or Fn::GetAtt; None for all else, such as another stack's export."""
    match value:
        case {"Ref": str() as target} | {"Fn::GetAtt": [str() as target, *_]}:
            return target
    return None


def as_list(value: object) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def launch_data(template: Template, launch_template_id: object) -> Properties:
    """Return the data of the launch template that the value points to; empty for another stack's."""
    sources = dict(resources(template, LAUNCH_TEMPLATE))
    data: Properties = sources.get(logical_id(launch_template_id) or "", {}).get("LaunchTemplateData", {})
    return data


def efa_interfaces(data: Properties) -> list[Properties]:
    """Return the EFA interfaces of a launch template's data."""
    interfaces = as_list(data.get("NetworkInterfaces"))
    return [each for each in interfaces if str(each.get("InterfaceType")).startswith("efa")]


def is_capacity_block(data: Properties) -> bool:
    return bool(data.get("InstanceMarketOptions", {}).get("MarketType") == "capacity-block")


def in_cluster_group(template: Template, group: object) -> bool:
    """Return True if the value points to a placement group of strategy cluster."""
    groups = dict(resources(template, "AWS::EC2::PlacementGroup"))
    return bool(groups.get(logical_id(group) or "", {}).get("Strategy") == "cluster")


def services_in(statement: Properties) -> list[Any]:
    """Return the services that are principals of a policy's statement."""
    principal = statement.get("Principal")
    return as_list(principal.get("Service")) if isinstance(principal, Mapping) else as_list(principal)


def multi_node_jobs(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, "AWS::Batch::JobDefinition"):
        if properties.get("Type") == "multinode":
            yield name, properties


def job_containers(properties: Properties) -> Iterator[Properties]:
    """Yield the container of every node range, or the one of a single-node job."""
    ranges = properties.get("NodeProperties", {}).get("NodeRangeProperties", [])
    yield from (each["Container"] for each in ranges if "Container" in each)
    if "ContainerProperties" in properties:
        yield properties["ContainerProperties"]
