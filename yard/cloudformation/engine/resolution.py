"""Evaluates a blueprint's expressions once its resources exist: properties and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.engine.records import Record, with_stack_tags
from slipway.yard.cloudformation.engine.stack import Output, Stack
from slipway.yard.cloudformation.engine.steps import EngineServices, LogicalResource, context_of
from slipway.yard.cloudformation.resources import execution
from slipway.yard.cloudformation.template import intrinsics, schemas
from slipway.yard.cloudformation.template.blueprint import Blueprint, Planned
from slipway.yard.cloudformation.template.intrinsics import to_text
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.scope import Scope
from slipway.yard.errors import validation_error

# Attributes that another resource changes later: AWS::EC2::VPCCidrBlock adds address blocks to a VPC.
CHANGED_BY_OTHERS = {"AWS::EC2::VPC": ("CidrBlockAssociations", "Ipv6CidrBlocks")}


def scope_of(stack: Stack, blueprint: Blueprint, surroundings: EngineServices) -> Scope:
    """Return the scope in which the blueprint's expressions see the stack's resources as they are now."""

    def value(reference: Reference) -> Any:
        record = stack.records[reference.logical_id]
        if reference.attribute is None:
            return record.resource.physical_id
        if reference.attribute in CHANGED_BY_OTHERS.get(record.type, ()):
            context = context_of(stack, surroundings, LogicalResource.of(record))
            provider, same = surroundings.providers(record.type), record.properties
            record = replace(record, resource=provider.update(context, record.resource, same, same))
        return attribute_of(record, reference.attribute)

    lookups = execution.lookups_of(surroundings.lookups, stack.region, stack.settings.role_arn)
    return blueprint.scope(lookups, value, surroundings.exports.look_up)


def attribute_of(record: Record, attribute: str) -> Any:
    """Return what Fn::GetAtt gives: an attribute of the resource, or a property that was set."""
    attributes = record.resource.attributes
    if attribute in attributes:
        return attributes[attribute]
    value: Any = {**record.properties, **attributes}
    for part in attribute.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        raise validation_error(
            f"Template error: resource {record.logical_id} does not support attribute type {attribute} in"
            " Fn::GetAtt"
        )
    return value


def resolve(planned: Planned, scope: Scope, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return a resource's properties with its stack's tags, checked and converted to its schema's types."""
    declared = planned.declared
    properties = intrinsics.evaluate(dict(declared.properties), scope)
    properties = with_stack_tags(declared.type, properties, tags)
    if problems := schemas.check(declared.type, properties):
        raise validation_error(
            f"Properties validation failed for resource {declared.logical_id} with message:\n"
            + "\n".join(problems)
        )
    return schemas.coerce(declared.type, properties)


def evaluated_output(key: str, raw: Mapping[str, Any], scope: Scope) -> Output:
    try:
        value = to_text(intrinsics.evaluate(raw["Value"], scope))
    except TypeError as error:
        raise validation_error(
            f"Template format error: The Value field of output {key} must evaluate to a String: {error}"
        ) from error
    export = raw.get("Export")
    name = None if export is None else to_text(intrinsics.evaluate(export["Name"], scope))
    return Output(key=key, value=value, description=raw.get("Description"), export_name=name)
