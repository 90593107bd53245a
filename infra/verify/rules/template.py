"""Reading a synthesized template: what rules need of CloudFormation, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]  # JSON of any shape
Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Says what is wrong and what to do; `where` is the logical id of the resource."""

    where: str
    message: str


Rule = Callable[[Template], Iterator[Finding]]


def resources(template: Template, *types: str) -> Iterator[tuple[str, Properties]]:
    """Yield logical ids and properties; a type that ends in :: stands for all that begin with it."""
    for logical_id, resource in template.get("Resources", {}).items():
        if any(resource["Type"] == each or _is_family(each, resource["Type"]) for each in types):
            yield logical_id, resource.get("Properties", {})


def logical_id(value: object) -> str | None:
    """Return what a Ref or Fn::GetAtt points to; None for all else, such as another stack's export."""
    match value:
        case {"Ref": str() as target} | {"Fn::GetAtt": [str() as target, *_]}:
            return target
    return None


def as_list(value: object) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


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


def _is_family(prefix: str, resource_type: str) -> bool:
    return prefix.endswith("::") and resource_type.startswith(prefix)
