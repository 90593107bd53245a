"""Refuses unknown types, missing capabilities and wrong properties before anything is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.template import schemas
from slipway.yard.cloudformation.template.blueprint import Blueprint
from slipway.yard.cloudformation.template.scope import waits_for
from slipway.yard.cloudformation.template.template import Template
from slipway.yard.errors import ApiError, validation_error

# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html, Capabilities
IAM_NAMES = {
    "AWS::IAM::AccessKey": None,
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Policy": None,
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::IAM::UserToGroupAddition": None,
}
MACRO = "AWS::CloudFormation::Macro"


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyProblem:
    """One property of one resource that CloudFormation would refuse."""

    logical_id: str
    type: str
    path: str
    message: str


def refuse_types(blueprint: Blueprint, providers: Callable[[str], Provider]) -> None:
    """Raise ValidationError for a type that AWS does not have or the yard does not make."""
    types = {planned.declared.type: name for name, planned in blueprint.resources.items()}
    if MACRO in types:
        raise validation_error(f"The yard cannot make {types[MACRO]}: {MACRO} is a macro. Leave it out.")
    unknown = sorted(name for name in types if not schemas.is_known(name))
    if unknown:
        raise validation_error(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    refusals = []
    for resource_type in sorted(types):
        try:
            providers(resource_type)
        except ApiError as error:
            refusals.append(error.message)
    if refusals:
        raise validation_error("\n".join(refusals))
    values: list[Any] = [dict(planned.properties) for planned in blueprint.resources.values()]
    for reference in sorted(waits_for([*values, dict(blueprint.outputs)]), key=str):
        resource_type = blueprint.resources[reference.logical_id].declared.type
        if reference.attribute is not None and not schemas.has_attribute(resource_type, reference.attribute):
            raise validation_error(
                f"Template error: resource {reference.logical_id} does not support attribute type"
                f" {reference.attribute} in Fn::GetAtt"
            )


def property_problems(blueprint: Blueprint) -> tuple[PropertyProblem, ...]:
    """List the problems of the properties as far as they are known."""
    found = []
    for planned in blueprint.resources.values():
        declared = planned.declared
        for problem in schemas.check(declared.type, planned.properties):
            path, _, message = problem.removeprefix("#").partition(": ")
            found.append(
                PropertyProblem(
                    logical_id=declared.logical_id,
                    type=declared.type,
                    path=f"/Resources/{declared.logical_id}/Properties{path}",
                    message=message[:1].upper() + message[1:],
                )
            )
    return tuple(found)


def refuse_properties(blueprint: Blueprint) -> None:
    """Raise ValidationError that lists every wrong property, resource by resource."""
    problems = property_problems(blueprint)
    if not problems:
        return
    by_resource: dict[str, list[str]] = {}
    for problem in problems:
        path = problem.path.removeprefix(f"/Resources/{problem.logical_id}/Properties")
        by_resource.setdefault(problem.logical_id, []).append(f"#{path}: {problem.message}")
    parts = (
        f"Properties validation failed for resource {name} with message:\n" + "\n".join(lines)
        for name, lines in by_resource.items()
    )
    raise validation_error("\n".join(parts))


def capabilities(template: Template) -> tuple[tuple[str, ...], str | None]:
    """Return the capabilities that the template needs, and why."""
    iam = sorted({resource.type for resource in template.resources.values() if resource.type in IAM_NAMES})
    needed: list[str] = []
    if iam:
        is_named = any(
            IAM_NAMES.get(resource.type) in resource.properties for resource in template.resources.values()
        )
        needed.append("CAPABILITY_NAMED_IAM" if is_named else "CAPABILITY_IAM")
    if template.transforms:
        needed.append("CAPABILITY_AUTO_EXPAND")
    reason = f"The following resource(s) require capabilities: [{', '.join(iam)}]" if iam else None
    return tuple(needed), reason


def refuse_capabilities(template: Template, given: Iterable[str]) -> None:
    needed, _ = capabilities(template)
    granted = set(given)
    if "CAPABILITY_NAMED_IAM" in granted:
        granted.add("CAPABILITY_IAM")
    missing = [one for one in needed if one not in granted]
    if missing:
        raise ApiError("InsufficientCapabilitiesException", f"Requires capabilities : [{', '.join(missing)}]")
