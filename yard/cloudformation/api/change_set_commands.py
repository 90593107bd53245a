"""The calls on change sets, which are created at once and executed in the stack's thread, and on drift."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from slipway.yard.cloudformation.api import answers
from slipway.yard.cloudformation.api.answers import Shown, given, page
from slipway.yard.cloudformation.api.commands import (
    Answer,
    Intent,
    checked_name,
    has_changes,
    intent_of,
)
from slipway.yard.cloudformation.engine import changes, drift
from slipway.yard.cloudformation.engine.changes import EARLY_VALIDATION, NO_CHANGES, ChangeSet
from slipway.yard.cloudformation.engine.engine import UPDATABLE, StackRequest, refuse_unless_updatable
from slipway.yard.cloudformation.engine.stack import ResourceDrift, Stack
from slipway.yard.cloudformation.template import checks
from slipway.yard.errors import ApiError, validation_error

REVIEW = "REVIEW_IN_PROGRESS"


def create_change_set(call: StackRequest) -> Answer:
    name = checked_name(call, "ChangeSetName")
    kind = str(call.get("ChangeSetType", "UPDATE"))
    if kind not in ("CREATE", "UPDATE"):
        raise validation_error(f"ChangeSetType is {kind}: the yard does CREATE and UPDATE.")
    stack = _stack_for(call, kind, name)
    with stack.lock:
        if kind == "UPDATE":
            # The execution decides how failures are handled, so a stack that stopped half-way may have a
            # change set.
            refuse_unless_updatable(stack, disable_rollback=True)
        if name in stack.change_sets:
            raise ApiError("AlreadyExistsException", f"ChangeSet [{name}] already exists")
        intent = intent_of(call, stack)
        change_set = _draw_up(call, stack, intent, name)
        if not stack.events:
            call.engine.register(stack)
            stack.set_status(change_set.operation, REVIEW, "User Initiated")
        stack.change_sets[name] = change_set
    return {"Id": change_set.change_set_id, "StackId": stack.stack_id}


def _stack_for(call: StackRequest, kind: str, name: str) -> Stack:
    if kind == "UPDATE":
        return call.stack()
    existing = call.engine.find(call.region, str(call.get("StackName", "")))
    if existing is None:
        return call.engine.new_stack(call.region, checked_name(call, "StackName"), REVIEW)
    if existing.status != REVIEW:
        raise validation_error(
            f"Stack [{existing.name}] already exists and cannot be created again with the changeSet [{name}]."
        )
    return existing


def _draw_up(call: StackRequest, stack: Stack, intent: Intent, name: str) -> ChangeSet:
    problems = checks.property_problems(intent.blueprint)
    reason = EARLY_VALIDATION if problems else None if has_changes(stack, intent) else NO_CHANGES
    prefix = f"arn:aws:cloudformation:{call.region}:{call.engine.account}:changeSet"
    tags = (stack.settings.tags, intent.settings.tags)
    return ChangeSet(
        change_set_id=f"{prefix}/{name}/{uuid.uuid4()}",
        name=name,
        kind=str(call.get("ChangeSetType", "UPDATE")),
        description=call.get("Description"),
        created_at=datetime.now(UTC),
        blueprint=intent.blueprint,
        settings=intent.settings,
        operation=call.operation("CREATE_CHANGESET"),
        changes=changes.compare(stack.blueprint, intent.blueprint, stack.records, tags),
        problems=problems,
        reason=reason,
        execution_status="UNAVAILABLE" if reason else "AVAILABLE",
    )


def locate(call: StackRequest) -> tuple[Stack, ChangeSet]:
    """Return the stack and its change set by name or id; raise ChangeSetNotFound if there is none."""
    wanted, stack_given = str(call.get("ChangeSetName", "")), call.get("StackName")
    stacks = [call.stack()] if stack_given else call.engine.stacks(call.region)
    for stack in stacks:
        for change_set in stack.change_sets.values():
            if wanted == change_set.change_set_id or (stack_given and wanted == change_set.name):
                return stack, change_set
    raise ApiError("ChangeSetNotFound", f"ChangeSet [{wanted}] does not exist", status=404)


def describe_change_set(call: StackRequest) -> Answer:
    stack, change_set = locate(call)
    with stack.lock:
        listed, token = page(change_set.changes, call, size=100)
        shown = answers.change_set(change_set, stack)
        with_values = bool(call.get("IncludePropertyValues"))
        shown["Changes"] = [answers.change(one, with_values=with_values) for one in listed]
    return {**shown, **token}


def execute_change_set(call: StackRequest) -> Answer:
    stack, change_set = locate(call)
    with stack.lock:
        if change_set.execution_status != "AVAILABLE":
            raise ApiError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current status of"
                f" [{change_set.status}]",
            )
        drawn_up = change_set.settings
        # The execution may still change how failures are handled.
        settings = replace(
            drawn_up,
            disable_rollback=bool(call.get("DisableRollback", drawn_up.disable_rollback)),
            retain_except_on_create=bool(call.get("RetainExceptOnCreate", drawn_up.retain_except_on_create)),
        )
        if change_set.kind == "UPDATE":
            refuse_unless_updatable(stack, disable_rollback=settings.disable_rollback)
        call.engine.deploy(stack, change_set.blueprint, settings, call.operation(f"{change_set.kind}_STACK"))
        change_set.execution_status = "EXECUTE_COMPLETE"
        stack.change_set_id = change_set.change_set_id
        # The other change sets were computed for the stack as it was before.
        stack.change_sets = {change_set.name: change_set}
    call.engine.wait(stack)
    return {}


def delete_change_set(call: StackRequest) -> Answer:
    """Delete the change set; an absent one is no error, since the CDK deletes before each deployment."""
    try:
        stack, change_set = locate(call)
    except ApiError as error:
        if error.code == "ChangeSetNotFound":
            return {}
        raise
    with stack.lock:
        stack.change_sets.pop(change_set.name, None)
    return {}


def list_change_sets(call: StackRequest) -> Answer:
    stack = call.stack()
    with stack.lock:
        listed, token = page(list(stack.change_sets.values()), call, size=100)
        return {"Summaries": [answers.change_set_summary(one, stack) for one in listed], **token}


# The calls on drift.
DETECTABLE = (*UPDATABLE, "UPDATE_ROLLBACK_FAILED")


def detect_stack_drift(call: StackRequest) -> Answer:
    stack = _detectable(call)
    detection = drift.detect(stack, call.surroundings, call.get("LogicalResourceIds", ()))
    return {"StackDriftDetectionId": detection.detection_id}


def _detectable(call: StackRequest) -> Stack:
    stack = call.stack()
    if stack.status not in DETECTABLE:
        raise validation_error(
            f"Drift detection cannot be performed on stack [{stack.stack_id}] while it is in"
            f" {stack.status} state"
        )
    return stack


def describe_stack_drift_detection_status(call: StackRequest) -> Answer:
    wanted = call.get("StackDriftDetectionId")
    for stack in call.engine.stacks(call.region):
        detection = stack.detection
        if detection is not None and detection.detection_id == wanted:
            return {
                "StackId": detection.stack_id,
                "StackDriftDetectionId": detection.detection_id,
                "StackDriftStatus": detection.status,
                "DetectionStatus": "DETECTION_COMPLETE",
                "DriftedStackResourceCount": detection.drifted,
                "Timestamp": detection.timestamp,
            }
    raise validation_error(f"Drift detection {wanted} does not exist")


def describe_stack_resource_drifts(call: StackRequest) -> Answer:
    stack = call.stack()
    wanted = call.get("StackResourceDriftStatusFilters", [])
    with stack.lock:
        found = [one for one in stack.drifts.values() if not wanted or one.status in wanted]
        listed, token = page(found, call, size=100)
        return {"StackResourceDrifts": [_resource(one, stack) for one in listed], **token}


def detect_stack_resource_drift(call: StackRequest) -> Answer:
    stack = _detectable(call)
    logical_id = str(call.get("LogicalResourceId", ""))
    record = stack.records.get(logical_id)
    if record is None:
        raise validation_error(f"Resource {logical_id} does not exist for stack {stack.name}")
    found = drift.compare(stack, record, call.surroundings)
    with stack.lock:
        stack.drifts[logical_id] = found
    return {"StackResourceDrift": _resource(found, stack)}


def _resource(one: ResourceDrift, stack: Stack) -> Shown:
    differences = [
        {
            "PropertyPath": difference.path,
            "ExpectedValue": difference.expected,
            "ActualValue": difference.actual,
            "DifferenceType": difference.kind,
        }
        for difference in one.differences
    ]
    return {
        "StackId": stack.stack_id,
        "LogicalResourceId": one.record.logical_id,
        "PhysicalResourceId": one.record.resource.physical_id,
        "ResourceType": one.record.type,
        "StackResourceDriftStatus": one.status,
        "PropertyDifferences": differences,
        "Timestamp": one.timestamp,
        **given(
            ExpectedProperties=json.dumps(one.record.properties),
            ActualProperties=None if one.actual is None else json.dumps(one.actual),
            DriftStatusReason=one.reason,
        ),
    }
