"""Stacks, events and change sets as CloudFormation's API shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from slipway.yard.cloudformation.engine.changes import ABSENT, Change, ChangeSet, Detail
from slipway.yard.cloudformation.engine.engine import StackRequest
from slipway.yard.cloudformation.engine.records import StackSettings
from slipway.yard.cloudformation.engine.stack import STACK_TYPE, Event, Stack
from slipway.yard.cloudformation.template.scope import Pending
from slipway.yard.errors import validation_error

UNKNOWN_YET = "{{changeSet:KNOWN_AFTER_APPLY}}"

Shown = dict[str, Any]


def given(**values: Any) -> Shown:
    """Return the values without those that are None: an answer leaves out absent members."""
    return {name: value for name, value in values.items() if value is not None}


def stack(one: Stack) -> Shown:
    blueprint, settings = one.blueprint, one.settings
    parameters = blueprint.parameters.values() if blueprint else ()
    outputs = [
        given(
            OutputKey=output.key,
            OutputValue=output.value,
            Description=output.description,
            ExportName=output.export_name,
        )
        for output in one.outputs
    ]
    return {
        **_identity(one),
        **given(
            ChangeSetId=one.change_set_id,
            Description=blueprint.template.description if blueprint else None,
            Parameters=[parameter.describe() for parameter in parameters],
            DeletionTime=one.deleted_at,
            LastUpdatedTime=one.updated_at,
            StackStatusReason=one.reason,
            Outputs=[] if one.is_gone else outputs,
            DriftInformation=_drift(one),
        ),
        "EnableTerminationProtection": one.is_protected,
        "DisableRollback": settings.disable_rollback,
        **_settings(settings),
    }


def _identity(one: Stack) -> Shown:
    return {
        "StackId": one.stack_id,
        "StackName": one.name,
        "CreationTime": one.created_at,
        "StackStatus": one.status,
    }


def _settings(settings: StackSettings) -> Shown:
    mode = {"Mode": settings.deployment_mode} if settings.deployment_mode else None
    return given(
        Capabilities=list(settings.capabilities),
        NotificationARNs=list(settings.notification_arns),
        RollbackConfiguration=dict(settings.rollback_configuration),
        RoleARN=settings.role_arn,
        Tags=[{"Key": key, "Value": value} for key, value in settings.tags.items()],
        DeploymentConfig=mode,
    )


def _drift(one: Stack) -> Shown:
    if one.detection is None:
        return {"StackDriftStatus": "NOT_CHECKED"}
    return {"StackDriftStatus": one.detection.status, "LastCheckTimestamp": one.detection.timestamp}


def stack_summary(one: Stack) -> Shown:
    return {
        **_identity(one),
        **given(
            TemplateDescription=one.blueprint.template.description if one.blueprint else None,
            LastUpdatedTime=one.updated_at,
            DeletionTime=one.deleted_at,
            StackStatusReason=one.reason,
            DriftInformation=_drift(one),
        ),
    }


def event(one: Event, owner: Stack) -> Shown:
    return given(
        StackId=owner.stack_id,
        EventId=one.event_id,
        StackName=owner.name,
        OperationId=one.operation.operation_id,
        LogicalResourceId=one.logical_id,
        PhysicalResourceId=one.physical_id,
        ResourceType=one.type,
        Timestamp=one.timestamp,
        ResourceStatus=one.status,
        ResourceStatusReason=one.reason,
        ResourceProperties=json.dumps(one.properties) if one.properties is not None else None,
        ClientRequestToken=one.operation.token,
    )


def operation_event(one: Event, owner: Stack) -> Shown:
    """Return an event in the form of the newer DescribeEvents."""
    shown = event(one, owner)
    del shown["StackName"]
    kind = "STACK_EVENT" if one.type == STACK_TYPE else "PROGRESS_EVENT"
    if one.status.endswith("_FAILED"):
        kind = "PROVISIONING_ERROR"
    return {**shown, "EventType": kind, "OperationType": one.operation.kind}


def validation_events(one: ChangeSet, owner: Stack) -> list[Shown]:
    return [
        {
            "EventId": f"{one.operation.operation_id}-{number}",
            "StackId": owner.stack_id,
            "OperationId": one.operation.operation_id,
            "OperationType": one.operation.kind,
            "EventType": "VALIDATION_ERROR",
            "LogicalResourceId": problem.logical_id,
            "ResourceType": problem.type,
            "Timestamp": one.created_at,
            "ValidationFailureMode": "FAIL",
            "ValidationName": "PROPERTY_VALIDATION",
            "ValidationStatus": "FAILED",
            "ValidationStatusReason": problem.message,  # the CDK adds the path
            "ValidationPath": problem.path,
        }
        for number, problem in enumerate(one.problems)
    ]


def resource(one: Event, owner: Stack, *, time: str = "Timestamp") -> Shown:
    drift = owner.drifts.get(one.logical_id)
    information = given(
        StackResourceDriftStatus=drift.status if drift else "NOT_CHECKED",
        LastCheckTimestamp=drift.timestamp if drift else None,
    )
    return {
        **given(
            LogicalResourceId=one.logical_id,
            PhysicalResourceId=one.physical_id or None,
            ResourceType=one.type,
            ResourceStatus=one.status,
            ResourceStatusReason=one.reason,
        ),
        time: one.timestamp,
        "DriftInformation": information,
    }


def change_set(one: ChangeSet, owner: Stack) -> Shown:
    return {
        **change_set_summary(one, owner),
        "Parameters": [parameter.describe() for parameter in one.blueprint.parameters.values()],
        "OnStackFailure": one.settings.on_failure,
        **_settings(one.settings),
    }


def change_set_summary(one: ChangeSet, owner: Stack) -> Shown:
    return given(
        StackId=owner.stack_id,
        StackName=owner.name,
        ChangeSetId=one.change_set_id,
        ChangeSetName=one.name,
        ExecutionStatus=one.execution_status,
        Status=one.status,
        StatusReason=one.reason,
        CreationTime=one.created_at,
        Description=one.description,
        IncludeNestedStacks=False,
    )


def change(one: Change, *, with_values: bool) -> Shown:
    """Return one entry of a change set's Changes."""
    scope = sorted({detail.attribute for detail in one.details})
    shown = given(
        PolicyAction=one.policy_action,
        Action=one.action,
        LogicalResourceId=one.logical_id,
        PhysicalResourceId=one.physical_id,
        ResourceType=one.type,
        Replacement=one.replacement,
        Scope=scope,
        Details=[_detail(detail, with_values=with_values) for detail in one.details],
    )
    if with_values:
        shown |= given(BeforeContext=_context(one.before), AfterContext=_context(one.after))
    return {"Type": "Resource", "ResourceChange": shown}


def _context(properties: Mapping[str, Any] | None) -> str | None:
    if properties is None:
        return None
    return json.dumps({"Properties": properties}, default=_unknown)


def _unknown(value: Any) -> str:
    assert isinstance(value, Pending), value
    return UNKNOWN_YET


def _detail(one: Detail, *, with_values: bool) -> Shown:
    target = given(Attribute=one.attribute, Name=one.name, RequiresRecreation=one.recreation)
    if with_values:
        kinds = {(True, False): "Add", (False, True): "Remove"}
        target |= given(
            Path=one.path,
            BeforeValue=_value(one.before),
            AfterValue=UNKNOWN_YET if one.is_dynamic else _value(one.after),
            AttributeChangeType=kinds.get((one.before is ABSENT, one.after is ABSENT), "Modify"),
        )
    return given(
        Target=target,
        Evaluation="Dynamic" if one.is_dynamic else "Static",
        ChangeSource=one.source if one.attribute == "Properties" else None,
        CausingEntity=one.cause,
    )


def _value(value: Any) -> str | None:
    if value is ABSENT:
        return None
    if isinstance(value, Pending):
        return UNKNOWN_YET
    return value if isinstance(value, str) else json.dumps(value, default=_unknown)


# Pagination.
T = TypeVar("T")


def page(items: Sequence[T], call: StackRequest, *, size: int) -> tuple[Sequence[T], dict[str, str]]:
    """Return the page that NextToken names, and the token of the next page, if any."""
    token = str(call.get("NextToken", "0"))
    if not token.isdigit():
        raise validation_error(f"NextToken '{token}' is none that the yard gave out")
    start = int(token)
    end = start + min(int(call.get("MaxResults", size)), size)
    return items[start:end], {"NextToken": str(end)} if end < len(items) else {}
