"""Nested stacks, which their parent makes, changes and deletes through the yard's API.

The rules for properties that are conditionally create-only are here, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties, Provider, Resource
from slipway.yard.cloudformation.resources.recorded import Form, SchemaRecord
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, is_gone, text, tolerating
from slipway.yard.errors import ApiError, validation_error

STACK = "AWS::CloudFormation::Stack"
# A child needs no capabilities of its own: its parent's were checked.
CAPABILITIES = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
LOOK_S = 1.0
LONGEST_LOOKS = 7200
NO_CHANGES = "No updates are to be performed"


class NestedStack:
    """Makes a child stack; its outputs are the attributes. A failed child rolls back before its parent."""

    def create(self, context: Context, properties: Properties) -> Resource:
        scope = ResourceScope(context=context, service="cloudformation", properties=properties)
        request = {**_request(properties), "TimeoutInMinutes": properties.get("TimeoutInMinutes")}
        request |= _role(context)
        name = context.default_name[-128:].lstrip("-0123456789")
        stack_id = str(scope.send("create_stack", StackName=name, **request)["StackId"])
        try:
            return _settled(scope, stack_id, "create")
        except ApiError:
            _delete(replace(scope, context=context.uncancelled()), stack_id)
            raise

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        # Wait for the child's update even when cancelled: the rollback could not change the child meanwhile.
        scope = ResourceScope(context=context.uncancelled(), service="cloudformation", properties=new)
        try:
            scope.send("update_stack", StackName=resource.physical_id, **_request(new), **_role(context))
        except ApiError as error:
            if NO_CHANGES not in error.message:
                raise
        return _settled(scope, resource.physical_id, "update")

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        _delete(ResourceScope(context=context, service="cloudformation"), resource.physical_id)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        raise NotImplementedError


def _request(properties: Properties) -> dict[str, Any]:
    parameters = properties.get("Parameters") or {}
    return {
        "TemplateURL": properties["TemplateURL"],
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": _text(value)} for key, value in parameters.items()
        ],
        "Capabilities": CAPABILITIES,
        "NotificationARNs": properties.get("NotificationARNs"),
        "Tags": properties.get("Tags") or [],
    }


def _role(context: Context) -> dict[str, str]:
    """Return the parent's role as parameters: a child is made with the same role."""
    return {"RoleARN": context.role_arn} if context.role_arn else {}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def _settled(scope: ResourceScope, stack_id: str, verb: str) -> Resource:
    """Return the stack once its operation has ended; raise ApiError with the reason if it failed."""
    stack = _wait(scope, stack_id, verb)
    if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        why = _first_reason(scope, stack_id)
        message = f"Embedded stack {stack_id} was not successfully {verb}d: {why}"
        raise validation_error(message)
    outputs = {f"Outputs.{output['OutputKey']}": output["OutputValue"] for output in stack.get("Outputs", ())}
    return Resource(physical_id=stack_id, attributes={"StackId": stack_id, **outputs})


def _delete(scope: ResourceScope, stack_id: str) -> None:
    stack = None
    with tolerating(is_gone):
        scope.send("delete_stack", StackName=stack_id)
        stack = _wait(scope, stack_id, "delete")
    if stack and stack["StackStatus"] != "DELETE_COMPLETE":
        why = _first_reason(scope, stack_id)
        raise validation_error(f"Embedded stack {stack_id} was not successfully deleted: {why}")


def _wait(scope: ResourceScope, stack_id: str, verb: str) -> Mapping[str, Any]:
    for _ in range(LONGEST_LOOKS):
        found = dict(scope.send("describe_stacks", StackName=stack_id)["Stacks"][0])
        if not found["StackStatus"].endswith("_IN_PROGRESS"):
            return found
        scope.context.pause(LOOK_S, verb)
    raise ApiError("NotStabilized", f"{stack_id} is still {found['StackStatus']}")


def _first_reason(scope: ResourceScope, stack_id: str) -> str:
    """Return why the child's first resource failed: many users look only at the parent's events."""
    events = scope.send("describe_stack_events", StackName=stack_id)["StackEvents"]
    failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
    if not failed:
        return str(events[0].get("ResourceStatusReason", events[0]["ResourceStatus"]))
    first = failed[-1]
    return f"{first['LogicalResourceId']}: {first.get('ResourceStatusReason')}"


# Properties that the schemas call conditionally create-only: whether a change of one replaces the resource.
# To add one: its path as the schema writes it, and the rule of "Update requires" on CloudFormation's page.
Rule = Callable[[Properties, Properties], bool]  # old and new properties → replaced


def replaces(kind: str, path: str, old: Properties, new: Properties) -> bool:
    """Return True if the change takes a new resource, as it does for a property without a rule here."""
    rules = RULES.get(kind, {})
    rule = rules.get(path) or rules.get("*")
    return rule(old, new) if rule else True


# EC2 stops an instance with an EBS root volume to change these; all instances of the yard have one.
IN_PLACE_ON_EBS = ("InstanceType", "EbsOptimized", "UserData", "KernelId", "RamdiskId", "SecurityGroupIds")

RULES: Mapping[str, Mapping[str, Rule]] = {
    # The group and its instances stay, except with an UpdatePolicy, which the yard does not implement.
    "AWS::AutoScaling::AutoScalingGroup": {"*": lambda _old, _new: False},
    "AWS::Batch::ComputeEnvironment": {
        "*": lambda _old, new: bool(new.get("ReplaceComputeEnvironment", True))
    },
    # From dedicated to default is the one change of tenancy made in place.
    "AWS::EC2::VPC": {
        "InstanceTenancy": lambda _old, new: new.get("InstanceTenancy", "default") != "default"
    },
    "AWS::EC2::Instance": {name: lambda _old, _new: False for name in IN_PLACE_ON_EBS},
    "AWS::SSM::Document": {"*": lambda _old, new: new.get("UpdateMethod", "Replace") != "NewVersion"},
}


PROVIDERS: Mapping[str, Provider] = {
    STACK: NestedStack(),
    "AWS::CDK::Metadata": SchemaRecord(type="AWS::CDK::Metadata", form=Form(identity=ID)),
    # Nothing uses it: the yard has no WaitCondition.
    "AWS::CloudFormation::WaitConditionHandle": SchemaRecord(
        type="AWS::CloudFormation::WaitConditionHandle",
        form=Form(identity=text("https://cloudformation-waitcondition-{region}.s3.amazonaws.com/{id}")),
    ),
}
