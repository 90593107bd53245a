"""Loads a template: expands Fn::ForEach, checks sections and resources, and checks that references exist.

To allow another attribute of a resource: one name in RESOURCE_KEYS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.template import document, references
from slipway.yard.errors import ApiError, validation_error

SECTIONS = frozenset(
    [
        "AWSTemplateFormatVersion",
        "Conditions",
        "Description",
        "Globals",
        "Mappings",
        "Metadata",
        "Outputs",
        "Parameters",
        "Resources",
        "Rules",
        "Transform",
        "Hooks",
    ]
)
RESOURCE_KEYS = frozenset(
    [
        "Type",
        "Properties",
        "Metadata",
        "DependsOn",
        "Condition",
        "DeletionPolicy",
        "UpdateReplacePolicy",
        "CreationPolicy",
        "UpdatePolicy",
        "Version",  # a custom resource's; its author defines the meaning
    ]
)
# Functions that may decide a deletion policy; they may use only parameters, mappings and conditions:
# https://github.com/aws-cloudformation/cfn-lint/pull/2784
DECIDING = frozenset(["Fn::FindInMap", "Fn::If", "Fn::Select", "Fn::Sub", "Ref"])
DELETION_POLICIES = ("Delete", "Retain", "RetainExceptOnCreate", "Snapshot")
POLICY_NAMES = {"deletion_policy": "DeletionPolicy", "update_replace_policy": "UpdateReplacePolicy"}
LANGUAGE_EXTENSIONS = "AWS::LanguageExtensions"
SERVERLESS = "AWS::Serverless-2016-10-31"
MAX_RESOURCES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDeclaration:
    logical_id: str
    type: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    condition: str | None = None
    deletion_policy: str = "Delete"
    update_replace_policy: str = "Delete"
    # By field name: policies that a function decides once the parameters are known.
    undecided: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    text: str
    body: Mapping[str, Any]
    resources: Mapping[str, ResourceDeclaration]

    def section(self, name: str) -> Mapping[str, Any]:
        return self.body.get(name) or {}

    @property
    def description(self) -> str | None:
        return self.body.get("Description")

    @property
    def transforms(self) -> tuple[str, ...]:
        return _names(self.body.get("Transform"))


def load(text: str) -> Template:
    """Return the checked template; raise ValidationError in CloudFormation's words for its first error."""
    body = document.parse(text)
    if LANGUAGE_EXTENSIONS in _names(body.get("Transform")):
        body = expand(body)
    _check_sections(body)
    resources = {name: _declaration(name, value) for name, value in body["Resources"].items()}
    template = Template(text=text, body=body, resources=resources)
    references.check(template.body, tuple(resources))
    edges = {
        name: {
            *declared.depends_on,
            *(found.logical_id for found in references.in_expression(declared.properties)),
        }
        for name, declared in resources.items()
    }
    references.order(edges)
    return template


def _check_sections(body: Mapping[str, Any]) -> None:
    if unknown := sorted(set(body) - SECTIONS):
        _refuse(f"Invalid template property or properties [{', '.join(unknown)}]")
    for name in SECTIONS - {"AWSTemplateFormatVersion", "Description", "Transform"}:
        if name in body and not isinstance(body[name], dict):
            _refuse(f"Template format error: {name} must be an object.")
    if not body.get("Resources"):
        _refuse("Template format error: At least one Resources member must be defined.")
    if len(body["Resources"]) > MAX_RESOURCES:
        _refuse(
            f"Template format error: Number of resources, {len(body['Resources'])}, is greater than"
            f" maximum allowed, {MAX_RESOURCES}"
        )
    transforms = _names(body.get("Transform"))
    if SERVERLESS in transforms:  # it does not change a template that has nothing to expand
        found = [
            f"{name} ({one.get('Type')})"
            for name, one in body["Resources"].items()
            if isinstance(one, dict) and str(one.get("Type")).startswith("AWS::Serverless::")
        ]
        if found or "Globals" in body:
            _refuse(
                f"The yard does not expand {', '.join(found) or 'Globals'}, which takes the macro"
                f" {SERVERLESS}: put the expanded resources into the template"
            )
    macros = [name for name in transforms if name not in (LANGUAGE_EXTENSIONS, SERVERLESS)]
    if macros or "Hooks" in body:
        _refuse(
            f"The yard runs no macros or hooks: {', '.join(macros) or 'Hooks'}. Remove them for the yard."
        )


def _declaration(logical_id: str, value: Any) -> ResourceDeclaration:
    if not (logical_id.isascii() and logical_id.isalnum()):
        _refuse(f"Template format error: Resource name {logical_id} is non alphanumeric.")
    where = f"/Resources/{logical_id}"
    if not isinstance(value, dict) or not isinstance(value.get("Type"), str):
        _refuse(f"Template format error: [{where}] Every Resources object must contain a Type member.")
    if unknown := sorted(set(value) - RESOURCE_KEYS):
        _refuse(f"Invalid template resource property '{unknown[0]}'")
    for name in ("Properties", "Metadata"):
        if not isinstance(value.get(name, {}), dict):
            _refuse(f"Template format error: [{where}/{name}] {name} must be an object.")
    return ResourceDeclaration(
        logical_id=logical_id,
        type=value["Type"],
        properties=value.get("Properties", {}),
        metadata=value.get("Metadata", {}),
        depends_on=_names(value.get("DependsOn")),
        condition=value.get("Condition"),
        **_policies(logical_id, value),
    )


def _policies(logical_id: str, value: Mapping[str, Any]) -> dict[str, Any]:
    given = {field: value[name] for field, name in POLICY_NAMES.items() if name in value}
    undecided = {field: policy for field, policy in given.items() if _is_function(policy)}
    decided = {
        field: deletion_policy(logical_id, field, policy)
        for field, policy in given.items()
        if field not in undecided
    }
    return {**decided, "undecided": undecided}


def deletion_policy(logical_id: str, field: str, policy: Any) -> str:
    """Return the policy; raise ValidationError if there is no such policy."""
    if policy not in DELETION_POLICIES:
        _refuse(
            f"Template format error: {POLICY_NAMES[field]} of resource {logical_id} is '{policy}', but has to"
            f" be one of {', '.join(DELETION_POLICIES)}."
        )
    return str(policy)


def _is_function(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and set(value) <= DECIDING


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        _refuse("Template format error: DependsOn and Transform are a string or a list of strings.")
    return tuple(value)


def _refuse(message: str) -> None:
    raise validation_error(message)


# Expands Fn::ForEach of the language extensions: the body of a loop is repeated for each item.
# Source: CloudFormation user guide, "Fn::ForEach". A loop over a parameter is refused, since a template is
# loaded before the values of its parameters are known.
LOOP = "Fn::ForEach::"
PARTS = 3  # the identifier, the collection and the body
LARGEST_DEPTH = 5


def expand(value: Any, depth: int = 0) -> Any:
    """Return the value with its loops expanded; raise ApiError for a wrong one."""
    if isinstance(value, list):
        return [expand(item, depth) for item in value]
    if not isinstance(value, Mapping):
        return value
    written: dict[str, Any] = {}
    for name, item in value.items():
        added = _turns(name, item, depth + 1) if name.startswith(LOOP) else {name: expand(item, depth)}
        if twice := sorted(set(added) & set(written)):
            raise _wrong(name, f"makes {', '.join(twice)} a second time")
        written |= added
    return written


def _turns(name: str, loop: Any, depth: int) -> dict[str, Any]:
    if depth > LARGEST_DEPTH:
        raise _wrong(name, f"is nested deeper than {LARGEST_DEPTH} loops")
    if not isinstance(loop, list) or len(loop) != PARTS or not isinstance(loop[2], Mapping):
        raise _wrong(name, "needs a list of an identifier, a collection and a mapping")
    identifier, collection, fragment = loop
    if not isinstance(collection, list) or not all(isinstance(item, str) for item in collection):
        raise _wrong(name, "must have a list of strings as its collection: the yard supports no other")
    written: dict[str, Any] = {}
    for item in collection:
        added = expand(_filled(fragment, str(identifier), item), depth)
        if twice := sorted(set(added) & set(written)):
            raise _wrong(name, f"makes {', '.join(twice)} for two items: put ${{{identifier}}} into the name")
        written |= added
    return written


def _filled(value: Any, identifier: str, item: str) -> Any:
    """Replace ${Identifier}, &{Identifier} and a Ref of it by the item; & keeps only letters and digits."""
    if isinstance(value, str):
        plain = re.sub(r"[^A-Za-z0-9]", "", item)
        return value.replace(f"${{{identifier}}}", item).replace(f"&{{{identifier}}}", plain)
    if isinstance(value, list):
        return [_filled(one, identifier, item) for one in value]
    if not isinstance(value, Mapping):
        return value
    if value == {"Ref": identifier}:
        return item
    return {_filled(name, identifier, item): _filled(one, identifier, item) for name, one in value.items()}


def _wrong(name: str, what: str) -> ApiError:
    return validation_error(f"Transform AWS::LanguageExtensions failed with: {name} {what}")
