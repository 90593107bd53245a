"""What a request asks of a stack: a blueprint that has passed the checks, and the stack's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.cloudformation.engine import stack_policy
from slipway.yard.cloudformation.engine.engine import StackRequest
from slipway.yard.cloudformation.engine.records import StackSettings
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.cloudformation.resources.custom.preview import refuse_functions
from slipway.yard.cloudformation.resources.execution import assumed, lookups_of
from slipway.yard.cloudformation.template import blueprint, checks, parameters, sources
from slipway.yard.cloudformation.template.blueprint import Blueprint, StackIdentity
from slipway.yard.errors import ApiError

STACK_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")
# Each would change what happens, so it is refused rather than ignored. ImportExistingResources, which the
# CDK's bootstrap sets, is not: where something of that name exists, its creation fails and says so.
REFUSED = {
    "ResourcesToImport": "import resources",
    "DeploymentMode": "revert drift",
    "StackPolicyURL": "read stack policies from S3: give StackPolicyBody",
    "StackPolicyDuringUpdateURL": "read stack policies from S3",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    blueprint: Blueprint
    settings: StackSettings


def stack_name(call: StackRequest) -> str:
    name = str(call.get("StackName", ""))
    if not STACK_NAME.fullmatch(name):
        raise ApiError(
            "ValidationError",
            f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: Member"
            f" must satisfy regular expression pattern: {STACK_NAME.pattern}",
        )
    return name


def intent_of(call: StackRequest, stack: Stack) -> Intent:
    """The blueprint and settings that a create, update or change set asks for; nothing is made."""
    for name, what in REFUSED.items():
        if call.get(name):
            raise ApiError("ValidationError", f"The yard does not {what}: leave {name} out.")
    surroundings = call.surroundings
    previous = stack.blueprint
    template = sources.template_of(
        call.parameters, surroundings.lookups, previous.template if previous else None
    )
    settings = _settings(call.parameters, stack.settings)
    lookups = lookups_of(surroundings.lookups, stack.region, settings.role_arn)
    checks.refuse_capabilities(template, settings.capabilities)
    given = _given(call.get("Parameters", []))
    values = parameters.resolve(template, given, previous.parameters if previous else {}, lookups)
    place = StackIdentity(
        region=stack.region,
        account=surroundings.account,
        stack_name=stack.name,
        stack_id=stack.stack_id,
        notification_arns=settings.notification_arns,
    )
    drawn = blueprint.draw(template, values, place, lookups, surroundings.exports.look_up)
    checks.refuse_types(drawn, surroundings.providers)
    refuse_functions(drawn)
    _refuse_new_types(drawn, stack)
    return Intent(blueprint=drawn, settings=settings)


def _refuse_new_types(drawn: Blueprint, stack: Stack) -> None:
    changed = [
        name
        for name, planned in drawn.resources.items()
        if name in stack.records and stack.records[name].type != planned.declared.type
    ]
    if changed:
        raise ApiError(
            "ValidationError",
            "Update of resource type is not permitted. The new template modifies resource type of the"
            f" following resources: [{', '.join(changed)}]",
        )


def _given(listed: list[Mapping[str, Any]]) -> dict[str, str | None]:
    return {
        one["ParameterKey"]: None if one.get("UsePreviousValue") else str(one.get("ParameterValue", ""))
        for one in listed
    }


def _settings(given: Mapping[str, Any], previous: StackSettings) -> StackSettings:
    """Keep what the request leaves out as it was, except how to meet failures."""
    deployment = given.get("DeploymentConfig") or {}
    tags = given.get("Tags")
    arns = given.get("NotificationARNs")
    rollback = given.get("RollbackConfiguration")
    disable_rollback = bool(given.get("DisableRollback") or deployment.get("DisableRollback"))
    override = given.get("StackPolicyDuringUpdateBody")
    on_failure = given.get("OnFailure") or given.get("OnStackFailure")
    if given.get("OnFailure") and given.get("DisableRollback") is not None:
        raise ApiError("ValidationError", "Only one of DisableRollback and OnFailure may be specified.")
    return StackSettings(
        tags=previous.tags if tags is None else _tags(tags),
        capabilities=tuple(given.get("Capabilities") or ()),
        notification_arns=previous.notification_arns if arns is None else tuple(arns),
        role_arn=role_of(given, previous),
        rollback_configuration=previous.rollback_configuration if rollback is None else rollback,
        deployment_mode=deployment.get("Mode") or previous.deployment_mode,
        disable_rollback=disable_rollback,
        on_failure=on_failure or "ROLLBACK",
        retain_except_on_create=bool(given.get("RetainExceptOnCreate")),
        policy_during_update=stack_policy.check(override) if override else None,
    )


def role_of(given: Mapping[str, Any], previous: StackSettings) -> str | None:
    """Return the role that the stack is made with from now on; ValidationError if it cannot be assumed."""
    found: str | None = given.get("RoleARN") or previous.role_arn
    if found:
        assumed(found)
    return found


def _tags(listed: list[Mapping[str, str]]) -> dict[str, str]:
    tags = {tag["Key"]: tag["Value"] for tag in listed}
    reserved = [key for key in tags if key.lower().startswith("aws:")]
    if reserved:
        raise ApiError(
            "ValidationError", f"aws: prefixed tag key names are not allowed: {', '.join(reserved)}"
        )
    return tags
