"""The contract between CloudFormation's engine and one resource type.

To add a type: write its Provider in the file of its service, add it to that file's PROVIDERS table, and name
it in registry.py.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from slipway.yard.errors import CANCELLED, ApiError

Properties = Mapping[str, Any]  # a template's properties, intrinsics resolved: JSON of any shape


class Fidelity(Enum):
    """Tells how closely a resource type resembles AWS's; `slipway yard status` prints it for every type."""

    BEHAVIOURAL = "behavioural"  # does what it does on AWS
    MOTO = "backed by moto"  # can be read and changed through its API, but has no effect
    RECORDED = "recorded only"  # its properties are checked against the schema and kept, nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Tells where a resource is being made."""

    region: str
    account: str
    stack_name: str
    stack_id: str
    logical_id: str
    default_name: str  # what CloudFormation would generate: <stack>-<logical id>-<suffix>
    resource_type: str = ""
    role_arn: str = ""  # of the stack's execution role, whose policies apply; empty: all is allowed
    cancelled: threading.Event = field(default_factory=threading.Event)  # set once the operation is cancelled

    def pause(self, seconds: float, verb: str) -> None:
        """Wait before polling again; raise CloudFormation's ApiError once the operation is cancelled."""
        if self.cancelled.wait(seconds):
            noun = {"create": "creation", "delete": "deletion"}.get(verb.lower(), verb.lower())
            raise ApiError(CANCELLED, f"Resource {noun} cancelled")

    def uncancelled(self) -> Context:
        """Return a context for work that cannot be cancelled, such as removing a half-made resource."""
        return replace(self, cancelled=threading.Event())

    def client(self, service: str) -> Any:
        """Return a boto3 client to the yard's own endpoint."""
        from slipway.yard.endpoint import own_client

        return own_client(service, self.region)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that was made: `Ref` gives its physical id, `Fn::GetAtt` an attribute (may be dotted)."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_another: bool = False  # made by an update next to the previous one, which is deleted after the update


class Provider(Protocol):
    """Makes one resource type. The engine decides between update and replacement (schema, nested.py)."""

    def create(self, context: Context, properties: Properties) -> Resource:
        """Make it, or raise ApiError and leave nothing behind."""
        ...

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        """Change it in place, all or nothing. A rollback calls this with old and new swapped.

        The physical id may change without a replacement: a job definition's is its newest revision's ARN.
        """
        ...

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        """Delete it; one that is already gone is no error."""
        ...

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        """Return the live values of the given properties, for drift; None if the resource is gone.

        A property that is missing in the answer was removed. NotImplementedError: drift is not checked.
        """
        ...
