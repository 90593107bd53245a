"""The calls that create, change and delete stacks. Each answers once its operation has begun."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway.yard.cloudformation.engine import changes
from slipway.yard.cloudformation.engine.deployment import check_stack_policy
from slipway.yard.cloudformation.engine.engine import StackRequest, refuse_unless_updatable
from slipway.yard.cloudformation.engine.records import Operation, StackSettings
from slipway.yard.cloudformation.engine.rollback import Rollback, Teardown
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.cloudformation.resources.execution import assumed, lookups_of
from slipway.yard.cloudformation.resources.registry import refuse_functions
from slipway.yard.cloudformation.template import blueprint, checks, parameters, sources
from slipway.yard.cloudformation.template.blueprint import Blueprint, StackIdentity
from slipway.yard.errors import ApiError, validation_error

Answer = dict[str, Any]


def create_stack(call: StackRequest) -> Answer:
    name = checked_name(call, "StackName")
    if (existing := call.engine.find(call.region, name)) is not None:
        raise ApiError("AlreadyExistsException", f"Stack [{existing.name}] already exists")
    stack = call.engine.new_stack(call.region, name, "CREATE_IN_PROGRESS")
    intent = intent_of(call, stack)
    checks.refuse_properties(intent.blueprint)
    stack.is_protected = bool(call.get("EnableTerminationProtection"))
    stack.policy = _policy(call)
    operation = call.operation("CREATE_STACK")
    with stack.lock:
        call.engine.register(stack)
        call.engine.deploy(stack, intent.blueprint, intent.settings, operation)
    call.engine.wait(stack)
    return {"StackId": stack.stack_id, "OperationId": operation.operation_id}


def update_stack(call: StackRequest) -> Answer:
    stack = call.stack()
    operation = call.operation("UPDATE_STACK")
    with stack.lock:
        deployment = call.get("DeploymentConfig", {})
        refuse_unless_updatable(
            stack,
            disable_rollback=bool(call.get("DisableRollback") or deployment.get("DisableRollback")),
        )
        intent = intent_of(call, stack)
        checks.refuse_properties(intent.blueprint)
        if not has_changes(stack, intent):
            raise validation_error("No updates are to be performed.")
        stack.policy = _policy(call) or stack.policy
        call.engine.deploy(stack, intent.blueprint, intent.settings, operation)
    call.engine.wait(stack)
    return {"StackId": stack.stack_id, "OperationId": operation.operation_id}


def _policy(call: StackRequest) -> str | None:
    body = call.get("StackPolicyBody")
    return None if body is None else check_stack_policy(str(body))


def has_changes(stack: Stack, intent: Intent) -> bool:
    """Return True if an update would change anything; after a failed update it always would."""
    old = stack.blueprint
    return (
        old is None
        or stack.base is not None
        or bool(changes.compare(old, intent.blueprint, stack.records))
        or old.outputs != intent.blueprint.outputs
        or stack.settings.tags != intent.settings.tags
        or stack.settings.notification_arns != intent.settings.notification_arns
    )


def delete_stack(call: StackRequest) -> Answer:
    """Delete the stack; an absent one is no error, and a creation in progress is cancelled first."""
    stack = call.engine.find(call.region, str(call.get("StackName", "")))
    if stack is None or stack.status in ("DELETE_COMPLETE", "DELETE_IN_PROGRESS"):
        return {}
    retained = tuple(call.get("RetainResources", ()))
    operation = call.operation("DELETE_STACK")
    with stack.lock:
        _refuse_deletion(stack, retained)
        _take_role(call, stack)
        stack.cancelled.set()
        teardown = Teardown(
            stack=stack,
            operation=operation,
            surroundings=call.surroundings,
            status_before=stack.status,
            retained=retained,
            is_forced=call.get("DeletionMode") == "FORCE_DELETE_STACK",
        )
        stack.set_status(operation, "DELETE_IN_PROGRESS", "User Initiated")
        call.engine.start(stack, operation, teardown.run)
    call.engine.wait(stack)
    return {}


def _take_role(call: StackRequest, stack: Stack) -> None:
    stack.settings = replace(stack.settings, role_arn=role_of(call.parameters, stack.settings))


def _refuse_deletion(stack: Stack, retained: tuple[str, ...]) -> None:
    if stack.is_busy and stack.status != "CREATE_IN_PROGRESS":
        raise validation_error(f"Stack [{stack.name}] cannot be deleted while in status {stack.status}")
    if stack.is_protected:
        raise validation_error(
            f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
        )
    if retained and stack.status != "DELETE_FAILED":
        raise validation_error(
            f"Invalid operation on stack [{stack.stack_id}]. Specify which resources to retain only when the"
            " stack is in the DELETE_FAILED state."
        )
    if unknown := sorted(set(retained) - set(stack.latest)):
        raise validation_error(f"Resources [{', '.join(unknown)}] do not exist in stack {stack.name}")


def rollback_stack(call: StackRequest) -> Answer:
    """Return a stack that failed without rollback to its last good state."""
    stack = call.stack()
    with stack.lock:
        _refuse_unless(stack, "CREATE_FAILED", "UPDATE_FAILED")
        _take_role(call, stack)
        retains = bool(call.get("RetainExceptOnCreate"))
        rollback = _rollback(call, stack, retain_except_on_create=retains)
        rollback.announce("User Initiated")
        call.engine.start(stack, rollback.operation, rollback.run)
    call.engine.wait(stack)
    return {"StackId": stack.stack_id, "OperationId": rollback.operation.operation_id}


def continue_update_rollback(call: StackRequest) -> Answer:
    stack = call.stack()
    skipped: tuple[str, ...] | None = tuple(call.get("ResourcesToSkip", ()))
    with stack.lock:
        _refuse_unless(stack, "UPDATE_ROLLBACK_FAILED")
        _take_role(call, stack)
        if call.get("ForceRollback"):
            skipped = None
        for name in skipped or ():
            if name not in stack.latest or stack.latest[name].status != "UPDATE_FAILED":
                raise validation_error(f"{name} is not in UPDATE_FAILED state: only such can be skipped")
        rollback = _rollback(call, stack)
        rollback.announce("User Initiated")
        call.engine.start(stack, rollback.operation, lambda: rollback.run(skipped=skipped))
    call.engine.wait(stack)
    return {}


def _rollback(call: StackRequest, stack: Stack, *, retain_except_on_create: bool = False) -> Rollback:
    return Rollback(
        stack=stack,
        surroundings=call.surroundings,
        operation=Operation(kind="ROLLBACK", token=call.get("ClientRequestToken")),
        retain_except_on_create=retain_except_on_create,
    )


def _refuse_unless(stack: Stack, *statuses: str) -> None:
    if stack.status not in statuses:
        raise validation_error(
            f"Stack:{stack.stack_id} is in {stack.status} state and can not be rolled back: it has to be in"
            f" {' or '.join(statuses)}."
        )


def cancel_update_stack(call: StackRequest) -> Answer:
    stack = call.stack()
    with stack.lock:
        if stack.status != "UPDATE_IN_PROGRESS":
            raise validation_error(
                f"CancelUpdateStack cannot be called from current stack status: {stack.status}"
            )
        stack.cancelled.set()
    return {}


def update_termination_protection(call: StackRequest) -> Answer:
    stack = call.stack("Stack [{}] does not exist")
    with stack.lock:
        stack.is_protected = bool(call.get("EnableTerminationProtection"))
    return {"StackId": stack.stack_id}


def set_stack_policy(call: StackRequest) -> Answer:
    stack = call.stack()
    policy = check_stack_policy(str(call.get("StackPolicyBody", "")))
    with stack.lock:
        stack.policy = policy
    return {}


def get_stack_policy(call: StackRequest) -> Answer:
    policy = call.stack().policy
    return {} if policy is None else {"StackPolicyBody": policy}


# An Intent is what a request wants a stack to be: a checked blueprint, and the stack's settings.
NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")  # of a stack or a change set
# Parameters that the yard does not implement; ignoring one would change what happens.
# ImportExistingResources, which the CDK's bootstrap sets, is ignored: where a resource of that name exists,
# its creation fails and says so.
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


def checked_name(call: StackRequest, parameter: str) -> str:
    """Return the name in this parameter; raise ValidationError for one that CloudFormation refuses."""
    name = str(call.get(parameter, ""))
    if not NAME.fullmatch(name):
        raise validation_error(
            f"1 validation error detected: Value '{name}' at '{parameter[0].lower()}{parameter[1:]}' failed"
            f" to satisfy constraint: Member must satisfy regular expression pattern: {NAME.pattern}"
        )
    return name


def intent_of(call: StackRequest, stack: Stack) -> Intent:
    """Return the blueprint and settings that a create, update or change set asks for; nothing is made."""
    for name, what in REFUSED.items():
        if call.get(name):
            raise validation_error(f"The yard does not {what}: leave {name} out.")
    surroundings = call.surroundings
    previous = stack.blueprint
    template = sources.template_of(
        call.parameters, surroundings.lookups, previous.template if previous else None
    )
    settings = _settings(call.parameters, stack.settings)
    lookups = lookups_of(surroundings.lookups, stack.region, settings.role_arn)
    checks.refuse_capabilities(template, settings.capabilities)
    given = {
        one["ParameterKey"]: None if one.get("UsePreviousValue") else str(one.get("ParameterValue", ""))
        for one in call.get("Parameters", [])
    }
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
        raise validation_error(
            "Update of resource type is not permitted. The new template modifies resource type of the"
            f" following resources: [{', '.join(changed)}]"
        )


def _settings(given: Mapping[str, Any], previous: StackSettings) -> StackSettings:
    """Return the settings; what the request leaves out stays as it was, except how failures are handled."""
    deployment = given.get("DeploymentConfig") or {}
    arns = given.get("NotificationARNs")
    rollback = given.get("RollbackConfiguration")
    disable_rollback = bool(given.get("DisableRollback") or deployment.get("DisableRollback"))
    override = given.get("StackPolicyDuringUpdateBody")
    on_failure = given.get("OnFailure") or given.get("OnStackFailure")
    if given.get("OnFailure") and given.get("DisableRollback") is not None:
        raise validation_error("Only one of DisableRollback and OnFailure may be specified.")
    tags = previous.tags
    if given.get("Tags") is not None:
        tags = {tag["Key"]: tag["Value"] for tag in given["Tags"]}
        if reserved := [key for key in tags if key.lower().startswith("aws:")]:
            raise validation_error(f"aws: prefixed tag key names are not allowed: {', '.join(reserved)}")
    return StackSettings(
        tags=tags,
        capabilities=tuple(given.get("Capabilities") or ()),
        notification_arns=previous.notification_arns if arns is None else tuple(arns),
        role_arn=role_of(given, previous),
        rollback_configuration=previous.rollback_configuration if rollback is None else rollback,
        deployment_mode=deployment.get("Mode") or previous.deployment_mode,
        disable_rollback=disable_rollback,
        on_failure=on_failure or "ROLLBACK",
        retain_except_on_create=bool(given.get("RetainExceptOnCreate")),
        policy_during_update=check_stack_policy(override) if override else None,
    )


def role_of(given: Mapping[str, Any], previous: StackSettings) -> str | None:
    """Return the role that works on the stack from now on; raise ValidationError if it cannot be assumed."""
    found: str | None = given.get("RoleARN") or previous.role_arn
    if found:
        assumed(found)
    return found
