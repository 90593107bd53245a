"""Fixtures: a CloudFormation engine over a cloud in memory, and small templates for it."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from slipway.yard.cloudformation.api import api
from slipway.yard.cloudformation.engine.engine import StackEngine
from slipway.yard.cloudformation.resources.provider import Context, Properties, Resource
from slipway.yard.errors import ApiError

# A topic changes in place by DisplayName, and is replaced when TopicName changes.


def topic(display: Any = None, name: Any = None, **attributes: Any) -> dict[str, Any]:
    values = {"DisplayName": display, "TopicName": name}
    properties = {key: value for key, value in values.items() if value is not None}
    return {"Type": "AWS::SNS::Topic", "Properties": properties, **attributes}


def exporting(value: Any, name: str = "shared", **resources: Any) -> dict[str, Any]:
    outputs = {"O": {"Value": value, "Export": {"Name": name}}}
    return {"Resources": resources or {"T": topic()}, "Outputs": outputs}


def importing(name: str = "shared") -> dict[str, Any]:
    return {"T": topic(display={"Fn::ImportValue": name})}


# A cloud in memory: providers store resources and fail on demand, and lookups come from tables.


@dataclass(slots=True)
class Live:
    """One resource that exists."""

    type: str
    logical_id: str
    stack_name: str
    properties: dict[str, Any]


@dataclass
class FakeCloud:
    """Hold what exists, by physical id, and how often (verb, logical id) will still fail."""

    live: dict[str, Live] = field(default_factory=dict)
    failures: dict[tuple[str, str], int] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    gate: threading.Event | None = None  # holds every creation until it is set
    stuck: set[str] = field(default_factory=set)  # a resource whose change never ends unless it is cancelled
    unknown_types: tuple[str, ...] = ()
    hook: Callable[[str, str], None] | None = None  # is called first for every call

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self.is_stuck = threading.Event()

    def provider(self, resource_type: str) -> FakeProvider:
        if resource_type in self.unknown_types:
            raise ApiError("ValidationError", f"no {resource_type} here")
        return FakeProvider(self, resource_type)

    def fail(self, verb: str, logical_id: str, times: int = 1) -> None:
        self.failures[verb, logical_id] = times

    def enter(self, verb: str, logical_id: str) -> None:
        self.calls.append((verb, logical_id))
        if self.hook is not None:
            self.hook(verb, logical_id)
        if self.gate is not None and verb == "create":
            assert self.gate.wait(timeout=30)
        left = self.failures.get((verb, logical_id), 0)
        if left:
            self.failures[verb, logical_id] = left - 1
            raise ApiError("InvalidRequest", f"no {verb} of {logical_id} today")

    def next_id(self, resource_type: str) -> str:
        return f"{resource_type.rsplit('::', 1)[-1].lower()}-{next(self._numbers)}"

    def await_stuck(self) -> None:
        assert self.is_stuck.wait(timeout=30)

    def names(self) -> list[str]:
        return sorted(resource.logical_id for resource in self.live.values())

    def of(self, logical_id: str) -> dict[str, Any]:
        (found,) = [one.properties for one in self.live.values() if one.logical_id == logical_id]
        return found


class FakeProvider:
    """Provide any type. Its attribute Arn names the resource; Echo.X returns the property X."""

    def __init__(self, cloud: FakeCloud, resource_type: str) -> None:
        self.cloud = cloud
        self.type = resource_type

    def create(self, context: Context, properties: Properties) -> Resource:
        self.cloud.enter("create", context.logical_id)
        self._wait(context, "create")
        physical_id = self.cloud.next_id(self.type)
        self.cloud.live[physical_id] = Live(
            self.type, context.logical_id, context.stack_name, copy.deepcopy(dict(properties))
        )
        return self._resource(physical_id, properties)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        live = self.cloud.live[resource.physical_id]
        half_done = self.cloud.failures.get(("update", context.logical_id), 0)
        if half_done:
            live.properties = copy.deepcopy(dict(new))  # a real update, too, may fail after it has begun
        self.cloud.enter("update", context.logical_id)
        self._wait(context, "update")
        live.properties = copy.deepcopy(dict(new))
        physical_id = resource.physical_id
        if self.type == "AWS::Batch::JobDefinition":  # each change is a new revision with an id of its own
            physical_id = self.cloud.next_id(self.type)
            self.cloud.live[physical_id] = self.cloud.live.pop(resource.physical_id)
        return self._resource(physical_id, new)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        self.cloud.enter("delete", context.logical_id)
        self.cloud.live.pop(resource.physical_id, None)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        if self.type == "AWS::SNS::TopicPolicy":
            raise NotImplementedError
        live = self.cloud.live.get(resource.physical_id)
        return None if live is None else live.properties

    def _wait(self, context: Context, verb: str) -> None:
        while context.logical_id in self.cloud.stuck:
            self.cloud.is_stuck.set()
            context.pause(0.01, verb)

    def _resource(self, physical_id: str, properties: Properties) -> Resource:
        arn = _KEY_ARN if self.type == "AWS::KMS::Key" else f"arn:aws:fake:::{physical_id}"
        attributes: dict[str, Any] = {"Arn": arn, "TopicArn": arn, "GroupId": physical_id}
        attributes |= {"TopicName": str(properties.get("DisplayName", physical_id))}
        return Resource(physical_id=physical_id, attributes=attributes)


@dataclass
class FakeLookups:
    parameters: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    objects: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    outputs: Mapping[tuple[str, str], str] = field(default_factory=lambda: {("net", "Vpc"): "vpc-9"})

    def parameter(self, name: str) -> str:
        return self.parameters[name]

    def secret(self, name: str, stage: str, version: str) -> str:
        return self.secrets[name]

    def availability_zones(self, region: str) -> tuple[str, ...]:
        return tuple(f"{region}{letter}" for letter in "abc")

    def stored_object(self, bucket: str, key: str, version: str | None) -> bytes:
        return self.objects[bucket, key]

    def stack_output(self, stack: str, output: str, region: str | None) -> str:
        return self.outputs[stack, output]


_KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"

# A CloudFormation engine over a cloud in memory.
REGION = "eu-west-1"
WAIT_SECONDS = 30.0


@dataclass
class Cfn:
    """Calls an engine; a template is given as its resources or as a whole."""

    cloud: FakeCloud = field(default_factory=FakeCloud)
    lookups: FakeLookups = field(default_factory=FakeLookups)

    def __post_init__(self) -> None:
        self.engine = StackEngine(
            providers=self.cloud.provider, lookups=lambda region: self.lookups, account="123456789012"
        )

    def __call__(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return api.answer(self.engine, operation, parameters, REGION)

    def refusal(self, operation: str, **parameters: Any) -> str:
        with pytest.raises(ApiError) as caught:
            self(operation, **parameters)
        return f"{caught.value.code}: {caught.value.message}"

    def create(self, name: str, body: Mapping[str, Any], **parameters: Any) -> str:
        self("CreateStack", StackName=name, TemplateBody=text(body), **parameters)
        return self.settled(name)

    def update(self, name: str, body: Mapping[str, Any], **parameters: Any) -> str:
        self("UpdateStack", StackName=name, TemplateBody=text(body), **parameters)
        return self.settled(name)

    def delete(self, name: str, **parameters: Any) -> str:
        stack_id = self.describe(name)["StackId"]
        self("DeleteStack", StackName=name, **parameters)
        return self.settled(stack_id)

    def settled(self, name: str) -> str:
        """Return the stack's status once its operation has ended."""
        stack = self.engine.find(REGION, name)
        assert stack is not None
        if stack.worker is not None:
            stack.worker.join(WAIT_SECONDS)
            assert not stack.worker.is_alive()
        return stack.status

    def describe(self, name: str) -> dict[str, Any]:
        (found,) = self("DescribeStacks", StackName=name)["Stacks"]
        assert isinstance(found, dict)
        return found

    def reason(self, name: str) -> str:
        return str(self.describe(name)["StackStatusReason"])

    def outputs(self, name: str) -> dict[str, str]:
        return {one["OutputKey"]: one["OutputValue"] for one in self.describe(name)["Outputs"]}

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return events, oldest first: the resource and its status."""
        found = self("DescribeStackEvents", StackName=name)["StackEvents"]
        return [(one["LogicalResourceId"], one["ResourceStatus"]) for one in reversed(found)]

    def reasons(self, name: str) -> list[str]:
        found = self("DescribeStackEvents", StackName=name)["StackEvents"]
        return [one.get("ResourceStatusReason", "") for one in found]

    def resources(self, name: str) -> dict[str, str]:
        found = self("ListStackResources", StackName=name)["StackResourceSummaries"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found}


def text(body: Mapping[str, Any]) -> str:
    return json.dumps(body if "Resources" in body else {"Resources": body})


@pytest.fixture
def cfn() -> Cfn:
    return Cfn()
