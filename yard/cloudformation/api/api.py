"""CloudFormation's API in the yard: the read-only calls, and the table of all calls.

To add a call: a function that takes a StackRequest (a change belongs into commands.py or
change_set_commands.py), and its line in CALLS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slipway.yard.cloudformation.api import answers, change_set_commands, commands
from slipway.yard.cloudformation.api.answers import page
from slipway.yard.cloudformation.api.change_set_commands import locate
from slipway.yard.cloudformation.api.commands import Answer
from slipway.yard.cloudformation.engine.engine import StackEngine, StackRequest
from slipway.yard.cloudformation.engine.stack import Event, Stack
from slipway.yard.cloudformation.template import checks, sources
from slipway.yard.cloudformation.template.template import Template
from slipway.yard.errors import ApiError, validation_error

# The read-only calls: stacks, events, resources, templates, exports and imports.
WITH_ID = "Stack with id {} does not exist"
STAGES = ["Original", "Processed"]


def describe_stacks(call: StackRequest) -> Answer:
    if call.get("StackName"):
        stacks = [call.stack(WITH_ID)]
    else:
        stacks = [stack for stack in call.engine.stacks(call.region) if not stack.is_gone]
    listed, token = page(stacks, call, size=50)
    return {
        "Stacks": [{**_locked(stack, answers.stack), **_family(call, stack)} for stack in listed],
        **token,
    }


def _family(call: StackRequest, stack: Stack) -> dict[str, str]:
    """Return the parent of a nested stack, and the root of all its parents."""
    parent = _holder(call, stack.stack_id)
    if parent is None:
        return {}
    root, above = parent, _holder(call, parent.stack_id)
    while above is not None:
        root, above = above, _holder(call, above.stack_id)
    return {"ParentId": parent.stack_id, "RootId": root.stack_id}


def _holder(call: StackRequest, physical_id: str) -> Stack | None:
    """Return the stack that has the resource."""
    for stack in call.engine.stacks(call.region):
        if any(record.resource.physical_id == physical_id for record in list(stack.records.values())):
            return stack
    return None


def _locked(stack: Stack, show: Any) -> answers.Shown:
    with stack.lock:
        shown: answers.Shown = show(stack)
    return shown


def list_stacks(call: StackRequest) -> Answer:
    wanted = call.get("StackStatusFilter", [])
    stacks = [stack for stack in call.engine.stacks(call.region) if not wanted or stack.status in wanted]
    listed, token = page(stacks, call, size=100)
    return {"StackSummaries": [_locked(stack, answers.stack_summary) for stack in listed], **token}


def describe_stack_events(call: StackRequest) -> Answer:
    stack = call.stack()
    with stack.lock:
        listed, token = page(list(reversed(stack.events)), call, size=100)
        return {"StackEvents": [answers.event(one, stack) for one in listed], **token}


def describe_events(call: StackRequest) -> Answer:
    """Answer with the newer list of events, which also says why a change set failed its validation."""
    if call.get("ChangeSetName"):
        stack, change_set = locate(call)
        shown = answers.validation_events(change_set, stack)
    elif call.get("StackName") or call.get("OperationId"):
        stacks = [call.stack()] if call.get("StackName") else call.engine.stacks(call.region)
        wanted = call.get("OperationId")
        shown = [
            answers.operation_event(event, stack)
            for stack in stacks
            for event in reversed(stack.events)
            if wanted in (None, event.operation.operation_id)
        ]
    else:
        raise validation_error("One of ChangeSetName, OperationId or StackName must be specified")
    if call.get("Filters", {}).get("FailedEvents"):
        shown = [one for one in shown if one["EventType"] in ("VALIDATION_ERROR", "PROVISIONING_ERROR")]
    listed, token = page(shown, call, size=100)
    return {"OperationEvents": list(listed), **token}


def _resources(stack: Stack, logical_id: str | None = None) -> list[Event]:
    found = [event for event in stack.latest.values() if logical_id in (None, event.logical_id)]
    if logical_id is not None and not found:
        raise validation_error(f"Resource {logical_id} does not exist for stack {stack.name}")
    return found


def describe_stack_resources(call: StackRequest) -> Answer:
    if call.get("StackName"):
        stack = call.stack(WITH_ID)
    else:
        physical_id = str(call.get("PhysicalResourceId", ""))
        holder = _holder(call, physical_id)
        if holder is None:
            raise validation_error(f"Stack for {physical_id} does not exist")
        stack = holder
    logical_id = call.get("LogicalResourceId")
    with stack.lock:
        names = {"StackId": stack.stack_id, "StackName": stack.name}
        found = [{**names, **answers.resource(event, stack)} for event in _resources(stack, logical_id)]
    return {"StackResources": found}


def describe_stack_resource(call: StackRequest) -> Answer:
    stack = call.stack("Stack '{}' does not exist")
    logical_id = str(call.get("LogicalResourceId", ""))
    with stack.lock:
        (one,) = _resources(stack, logical_id)
        shown = answers.resource(one, stack, time="LastUpdatedTimestamp")
        declared = stack.blueprint.template.resources.get(logical_id) if stack.blueprint else None
        metadata = json.dumps(declared.metadata) if declared and declared.metadata else None
        names = {"StackName": stack.name, "StackId": stack.stack_id}
        return {"StackResourceDetail": {**names, **shown, **answers.given(Metadata=metadata)}}


def list_stack_resources(call: StackRequest) -> Answer:
    stack = call.stack(WITH_ID)
    with stack.lock:
        listed, token = page(_resources(stack), call, size=100)
        shown = [answers.resource(one, stack, time="LastUpdatedTimestamp") for one in listed]
    return {"StackResourceSummaries": shown, **token}


def get_template(call: StackRequest) -> Answer:
    if call.get("ChangeSetName"):
        _, change_set = locate(call)
        return {"TemplateBody": change_set.blueprint.template.text, "StagesAvailable": STAGES}
    stack = call.stack(WITH_ID)
    text = stack.blueprint.template.text if stack.blueprint else ""
    return {"TemplateBody": text, "StagesAvailable": STAGES}


def validate_template(call: StackRequest) -> Answer:
    return _summary(sources.template_of(call.parameters, call.surroundings.lookups, None))


def _summary(template: Template) -> Answer:
    needed, reason = checks.capabilities(template)
    return answers.given(
        Parameters=[
            answers.given(
                ParameterKey=key,
                DefaultValue=None if (default := one.get("Default")) is None else str(default),
                NoEcho=str(one.get("NoEcho", "false")).lower() == "true",
                Description=one.get("Description"),
            )
            for key, one in template.section("Parameters").items()
        ],
        Description=template.description,
        Capabilities=list(needed),
        CapabilitiesReason=reason,
        DeclaredTransforms=list(template.transforms),
    )


def get_template_summary(call: StackRequest) -> Answer:
    if call.get("StackName"):
        stack = call.stack(WITH_ID)
        if stack.blueprint is None:
            raise validation_error(f"Stack {stack.name} has no template yet")
        template = stack.blueprint.template
    else:
        template = sources.template_of(call.parameters, call.surroundings.lookups, None)
    summary = _summary(template)
    for shown in summary["Parameters"]:
        declaration = template.section("Parameters")[shown["ParameterKey"]]
        shown["ParameterType"] = declaration.get("Type", "String")
        if "AllowedValues" in declaration:
            allowed = [str(value) for value in declaration["AllowedValues"]]
            shown["ParameterConstraints"] = {"AllowedValues": allowed}
    metadata = template.section("Metadata")
    return {
        **summary,
        "ResourceTypes": sorted({resource.type for resource in template.resources.values()}),
        **answers.given(
            Version=template.body.get("AWSTemplateFormatVersion"),
            Metadata=json.dumps(metadata) if metadata else None,
        ),
    }


def list_exports(call: StackRequest) -> Answer:
    listed, token = page(call.surroundings.exports.all(), call, size=100)
    shown = [{"ExportingStackId": one.stack_id, "Name": one.name, "Value": one.value} for one in listed]
    return {"Exports": shown, **token}


def list_imports(call: StackRequest) -> Answer:
    name = str(call.get("ExportName", ""))
    users = call.surroundings.exports.importers(name)
    if not users:
        raise validation_error(f"Export '{name}' is not imported by any stack.")
    listed, token = page(users, call, size=100)
    return {"Imports": list(listed), **token}


def list_hook_results(call: StackRequest) -> Answer:
    """Answer with no results: the yard has no hooks, but the CDK asks when a change set fails."""
    return {"HookResults": []}


CALLS: Mapping[str, Callable[[StackRequest], dict[str, Any]]] = {
    "CancelUpdateStack": commands.cancel_update_stack,
    "ContinueUpdateRollback": commands.continue_update_rollback,
    "CreateChangeSet": change_set_commands.create_change_set,
    "CreateStack": commands.create_stack,
    "DeleteChangeSet": change_set_commands.delete_change_set,
    "DeleteStack": commands.delete_stack,
    "DescribeChangeSet": change_set_commands.describe_change_set,
    "DescribeEvents": describe_events,
    "DescribeStackDriftDetectionStatus": change_set_commands.describe_stack_drift_detection_status,
    "DescribeStackEvents": describe_stack_events,
    "DescribeStackResource": describe_stack_resource,
    "DescribeStackResourceDrifts": change_set_commands.describe_stack_resource_drifts,
    "DescribeStackResources": describe_stack_resources,
    "DescribeStacks": describe_stacks,
    "DetectStackDrift": change_set_commands.detect_stack_drift,
    "DetectStackResourceDrift": change_set_commands.detect_stack_resource_drift,
    "ExecuteChangeSet": change_set_commands.execute_change_set,
    "GetStackPolicy": commands.get_stack_policy,
    "GetTemplate": get_template,
    "GetTemplateSummary": get_template_summary,
    "ListChangeSets": change_set_commands.list_change_sets,
    "ListExports": list_exports,
    "ListHookResults": list_hook_results,
    "ListImports": list_imports,
    "ListStackResources": list_stack_resources,
    "ListStacks": list_stacks,
    "RollbackStack": commands.rollback_stack,
    "SetStackPolicy": commands.set_stack_policy,
    "UpdateStack": commands.update_stack,
    "UpdateTerminationProtection": commands.update_termination_protection,
    "ValidateTemplate": validate_template,
}


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the answer of this process's CloudFormation; raise ApiError if it refuses the call."""
    return answer(_engine(), operation, parameters, region)


def answer(engine: StackEngine, operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the answer of the given engine; raise ApiError if it refuses the call."""
    if operation not in CALLS:
        raise ApiError(
            "InvalidAction", f"The yard's CloudFormation has no {operation}: it knows {', '.join(CALLS)}."
        )
    token = parameters.get("ClientRequestToken") or parameters.get("ClientToken")
    key = (region, operation, str(parameters.get("StackName")), str(token))
    if token and (given := engine.remembered(key)) is not None:
        return given
    given = CALLS[operation](StackRequest(engine=engine, region=region, parameters=parameters))
    if token:
        engine.remember(key, given)
    return given


@lru_cache(maxsize=1)
def _engine() -> StackEngine:
    from slipway.yard.cloudformation.resources.registry import provider
    from slipway.yard.cloudformation.template.parameters import YardLookups
    from slipway.yard.endpoint import ACCOUNT

    return StackEngine(providers=provider, lookups=YardLookups, account=ACCOUNT, patience_seconds=3.0)


def reset() -> None:
    """Forget every stack and recorded resource; each service forgets its own resources."""
    from slipway.yard.cloudformation.resources import recorded

    _engine.cache_clear()
    recorded.reset()
