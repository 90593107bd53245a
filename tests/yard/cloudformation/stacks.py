"""Creates, updates and deletes stacks of a real yard with boto3, and tells why one failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import WaiterError

from tests.yard.conftest import RunningYard

WAIT = {"Delay": 0.2, "MaxAttempts": 1500}
CAPABILITIES = ["CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]


@dataclass(frozen=True)
class Stacks:
    yard: RunningYard

    @property
    def cloudformation(self) -> Any:
        return self.yard.client("cloudformation")

    def create(self, name: str, body: Mapping[str, Any] | str, **parameters: Any) -> dict[str, str]:
        """Return its physical ids by logical id."""
        given = {"StackName": name, "TemplateBody": _text(body), "Capabilities": CAPABILITIES}
        self.cloudformation.create_stack(**given, **parameters)
        return self._ended(name, "stack_create_complete")

    def update(self, name: str, body: Mapping[str, Any] | str, **parameters: Any) -> dict[str, str]:
        given = {"StackName": name, "TemplateBody": _text(body), "Capabilities": CAPABILITIES}
        self.cloudformation.update_stack(**given, **parameters)
        return self._ended(name, "stack_update_complete")

    def delete(self, name: str) -> None:
        (stack,) = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
        self.cloudformation.delete_stack(StackName=name)
        self._wait(stack["StackId"], "stack_delete_complete")

    def outputs(self, name: str) -> dict[str, str]:
        (stack,) = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", ())}

    def reasons(self, name: str) -> list[str]:
        """Return why resources failed, the first failure first."""
        events = self.cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        return [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}"
            for event in reversed(events)
            if event["ResourceStatus"].endswith("FAILED")
        ]

    def _ended(self, name: str, state: str) -> dict[str, str]:
        self._wait(name, state)
        found = self.cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found}

    def _wait(self, name: str, state: str) -> None:
        try:
            self.cloudformation.get_waiter(state).wait(StackName=name, WaiterConfig=WAIT)
        except WaiterError as error:
            raise AssertionError(f"{name} is not {state}: {self.reasons(name)}") from error


def _text(body: Mapping[str, Any] | str) -> str:
    if isinstance(body, str):
        return body
    return json.dumps(body if "Resources" in body else {"Resources": body})


def typed(kind: str, **properties: Any) -> dict[str, Any]:
    """Return a resource of a template."""
    return {"Type": kind, "Properties": properties}
