"""Reads a synthesized template: what rules need to know of CloudFormation, and the findings they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Template = Mapping[str, Any]  # JSON of any shape
Properties = Mapping[str, Any]
LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"


class Finding(NamedTuple):
    """Says what is wrong and what to do; `where` is the logical id of the resource."""

    where: str
    message: str


Find = Callable[[Template], Iterator[Finding]]
Check = Callable[[Properties], Iterator[str]]
Source = Callable[[Template], Iterator[tuple[str, Properties]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Finds in a template what must not be; its module need not list it anywhere."""

    name: str
    find: Find

    def __call__(self, template: Template) -> Iterator[Finding]:
        return self.find(template)


def rule(name: str) -> Callable[[Find], Rule]:
    """Make a rule of a function of the whole template."""
    return lambda find: Rule(name=name, find=find)


def checks(name: str, *types: str, source: Source | None = None) -> Callable[[Check], Rule]:
    """Make a rule of a check on one resource: on each of these types, or on what `source` yields."""
    looked_at = source or (lambda template: resources(template, *types))

    def rule_of(check: Check) -> Rule:
        def find(template: Template) -> Iterator[Finding]:
            for where, properties in looked_at(template):
                yield from (Finding(where, message) for message in check(properties))

        return Rule(name=name, find=find)

    return rule_of


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
