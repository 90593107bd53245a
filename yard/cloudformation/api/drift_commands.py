"""The calls on drift."""

from __future__ import annotations

import json

from slipway.yard.cloudformation.api.answers import Shown, given
from slipway.yard.cloudformation.api.commands import Answer
from slipway.yard.cloudformation.api.pages import page
from slipway.yard.cloudformation.engine import drift
from slipway.yard.cloudformation.engine.drift_results import Detection, ResourceDrift
from slipway.yard.cloudformation.engine.engine import UPDATABLE, StackRequest
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.errors import ApiError

DETECTABLE = (*UPDATABLE, "UPDATE_ROLLBACK_FAILED")


def detect_stack_drift(call: StackRequest) -> Answer:
    stack = _detectable(call)
    detection = drift.detect(stack, call.surroundings, call.get("LogicalResourceIds", ()))
    return {"StackDriftDetectionId": detection.detection_id}


def _detectable(call: StackRequest) -> Stack:
    stack = call.stack()
    if stack.status not in DETECTABLE:
        raise ApiError(
            "ValidationError",
            f"Drift detection cannot be performed on stack [{stack.stack_id}] while it is in"
            f" {stack.status} state",
        )
    return stack


def describe_stack_drift_detection_status(call: StackRequest) -> Answer:
    wanted = call.get("StackDriftDetectionId")
    for stack in call.engine.stacks(call.region):
        detection = stack.detection
        if detection is not None and detection.detection_id == wanted:
            return _detection(detection)
    raise ApiError("ValidationError", f"Drift detection {wanted} does not exist")


def _detection(one: Detection) -> Shown:
    return {
        "StackId": one.stack_id,
        "StackDriftDetectionId": one.detection_id,
        "StackDriftStatus": one.status,
        "DetectionStatus": "DETECTION_COMPLETE",
        "DriftedStackResourceCount": one.drifted,
        "Timestamp": one.timestamp,
    }


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
        raise ApiError("ValidationError", f"Resource {logical_id} does not exist for stack {stack.name}")
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
