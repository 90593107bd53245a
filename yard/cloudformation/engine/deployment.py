"""One create or update of a stack: makes resources in order, then outputs and exports, then cleans up.

After a failure rollback.py takes over, or the stack stays as it is if the caller asked for no rollback.
Stack policies are checked here, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from slipway.yard.cloudformation.engine import changes, steps
from slipway.yard.cloudformation.engine.records import Operation, Record, tags_for
from slipway.yard.cloudformation.engine.resolution import evaluated_output, resolve, scope_of
from slipway.yard.cloudformation.engine.rollback import Rollback, Teardown
from slipway.yard.cloudformation.engine.stack import STACK_TYPE, removal_order
from slipway.yard.cloudformation.engine.steps import StepFailed, Steps
from slipway.yard.cloudformation.template.blueprint import Blueprint, Planned, present_outputs
from slipway.yard.errors import ApiError, validation_error

CANCELLED = "User Initiated"
NO_REPLACEMENT = "Replacement type updates not supported on stack with disable-rollback."


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment(Steps):
    """Runs one create or update; `verb` says which, and the stack's status is already <verb>_IN_PROGRESS."""

    blueprint: Blueprint
    verb: str

    def run(self) -> None:
        try:
            for name, record in self.stack.records.items():
                if name not in self.blueprint.resources and self._is_denied("Update:Delete", record):
                    raise validation_error(_denied("Update:Delete", name))
            for planned in self.blueprint.resources.values():
                if self.stack.cancelled.is_set():
                    raise validation_error(CANCELLED)
                self._provision(planned)
            scope = scope_of(self.stack, self.blueprint, self.surroundings)
            outputs = tuple(evaluated_output(key, raw, scope) for key, raw in present_outputs(scope).items())
            values = {
                output.export_name: output.value for output in outputs if output.export_name is not None
            }
            self.surroundings.exports.publish(self.stack.stack_id, self.stack.name, values)
        except StepFailed as failure:
            failed = steps.failed(failure.verb, [failure.logical_id])
            self._fail(CANCELLED if self.stack.cancelled.is_set() else failed)
        except ApiError as error:
            self._fail(error.message)
        else:
            self.stack.outputs = outputs
            self._finish()

    def _is_denied(self, action: str, record: Record) -> bool:
        if self.verb == "CREATE":
            return False
        policy = self.stack.settings.policy_during_update or self.stack.policy
        return denies(policy, action, record.logical_id, record.type)

    def _provision(self, planned: Planned) -> None:
        name = planned.declared.logical_id
        current = self.stack.records.get(name)
        verb = "update" if current else "create"
        try:
            tags = tags_for(
                planned.declared.type, self.stack.settings.tags, current.stack_tags if current else None
            )
            properties = resolve(planned, scope_of(self.stack, self.blueprint, self.surroundings), tags)
        except ApiError as error:
            raise self.refuse(planned, verb, error.message) from error
        if current is None:
            record = self.create(planned, properties)
        else:
            record = self._bring_up_to_date(current, planned, properties)
        with self.stack.lock:
            self.stack.records[name] = record

    def _bring_up_to_date(self, current: Record, planned: Planned, properties: Mapping[str, Any]) -> Record:
        # The template of a nested stack may have changed under the same URL.
        is_same = current.properties == properties and current.type != STACK_TYPE
        if is_same and current.logical_id not in self.stack.dirty:
            declared = planned.declared
            return replace(
                current,
                dependencies=planned.dependencies,
                deletion_policy=declared.deletion_policy,
                update_replace_policy=declared.update_replace_policy,
            )
        replaces = changes.needs_replacement(current.type, current.properties, properties)
        action = "Update:Replace" if replaces else "Update:Modify"
        if self._is_denied(action, current):
            raise self.refuse(planned, "update", _denied(action, current.logical_id))
        if not replaces:
            return self.update(current, planned, properties)
        if self.stack.settings.disable_rollback:
            raise self.refuse(planned, "update", NO_REPLACEMENT)
        return self.replace(current, planned, properties)

    def _finish(self) -> None:
        self.surroundings.exports.hold(self.stack.stack_id, self.stack.name, self.blueprint.imports)
        left: list[str] = []
        if self.verb == "UPDATE":
            self._set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            left = self._clean_up()
        with self.stack.lock:
            if self._is_being_deleted:
                return
            self.stack.settle()
            leftover = "Update successful. One or more resources could not be deleted." if left else None
            self._set_status(f"{self.verb}_COMPLETE", leftover)

    def _clean_up(self) -> list[str]:
        """Remove what the update replaced or no longer declares; return the names that could not go."""
        assert self.stack.base is not None
        records = self.stack.records
        undeclared = [record for name, record in records.items() if name not in self.blueprint.resources]
        held = {record.identity for record in records.values()}
        replaced = [record for record in self.stack.base.records.values() if record.identity not in held]
        left = []
        for record in removal_order([*undeclared, *replaced]):
            successor = records.get(record.logical_id) if record in replaced else None
            policy = successor.update_replace_policy if successor else record.deletion_policy
            if policy.startswith("Retain"):
                self.skip(record)
            elif not self.delete_or_leave(record):
                left.append(record.logical_id)
            if successor is None:
                with self.stack.lock:
                    records.pop(record.logical_id, None)
        return left

    @property
    def _is_being_deleted(self) -> bool:
        return self.stack.status == "DELETE_IN_PROGRESS"

    def _fail(self, reason: str) -> None:
        with self.stack.lock:
            if self._is_being_deleted:
                return
            go_on = self._announced(reason)
        go_on()

    def _announced(self, reason: str) -> Callable[[], None]:
        """Set the status after a failed operation, and return the function that handles the failure."""
        settings = self.stack.settings
        on_failure = settings.on_failure if self.verb == "CREATE" else "ROLLBACK"
        if settings.disable_rollback or on_failure == "DO_NOTHING":
            self._set_status(f"{self.verb}_FAILED", reason)
            return lambda: None
        if on_failure == "DELETE":
            self._set_status("DELETE_IN_PROGRESS", reason)
            return Teardown(stack=self.stack, operation=self.operation, surroundings=self.surroundings).run
        rollback = Rollback(
            stack=self.stack,
            operation=Operation(kind="ROLLBACK", token=self.operation.token),
            surroundings=self.surroundings,
            retain_except_on_create=settings.retain_except_on_create,
        )
        rollback.announce(reason)
        return rollback.run


def _denied(action: str, name: str) -> str:
    return f"Action denied by stack policy: no statement allows [{action}] for resource [{name}]"


# Stack policies: without one, an update may change every resource; with one, only those that it allows.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/protect-stack-resources.html


def check_stack_policy(body: str) -> str:
    """Return the policy unchanged; raise ValidationError if it is not a stack policy."""
    try:
        statements = json.loads(body)["Statement"]
        well_formed = all(
            statement["Effect"] in ("Allow", "Deny") and _resources(statement)
            for statement in _listed(statements)
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise validation_error(f"Error validating stack policy: Invalid stack policy: {error!r}") from error
    if not well_formed:
        raise validation_error(
            "Error validating stack policy: Invalid stack policy: every statement needs an Effect of Allow or"
            " Deny and a Resource or NotResource"
        )
    return body


def denies(body: str | None, action: str, logical_id: str, resource_type: str) -> bool:
    """Return True if the policy forbids the update action, such as Update:Replace, on the resource."""
    if body is None:
        return False
    applying = [
        statement["Effect"]
        for statement in _listed(json.loads(body)["Statement"])
        if _names_action(statement, action)
        and _names_resource(statement, logical_id)
        and _holds(statement, resource_type)
    ]
    return "Deny" in applying or "Allow" not in applying


def _names_action(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not _any_matches(statement["NotAction"], action)
    return _any_matches(statement.get("Action", []), action)


def _names_resource(statement: Mapping[str, Any], logical_id: str) -> bool:
    named = _any_matches(_resources(statement), f"LogicalResourceId/{logical_id}")
    return not named if "NotResource" in statement else named


def _holds(statement: Mapping[str, Any], resource_type: str) -> bool:
    conditions = statement.get("Condition") or {}
    return all(
        _any_matches(wanted, resource_type)
        for condition in conditions.values()
        for key, wanted in condition.items()
        if key == "ResourceType"
    )


def _resources(statement: Mapping[str, Any]) -> Any:
    return statement.get("Resource", statement.get("NotResource"))


def _any_matches(patterns: Any, value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in _listed(patterns))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
