"""A CloudFormation of one's own over a cloud in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from slipway.yard.cloudformation.api import api
from slipway.yard.cloudformation.engine.engine import StackEngine
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.fakes import FakeCloud, FakeLookups

REGION = "eu-west-1"
WAIT_SECONDS = 30.0


@dataclass
class Cfn:
    """Calls to an engine; a template is given as its resources or as a whole."""

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
        """The status of the stack once its operation has ended."""
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
        """Oldest first: what, and its status."""
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
