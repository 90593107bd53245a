"""How the yard's CloudFormation makes a resource: the contract between the engine and one resource type.

To add a type: write its Provider in the file of its service and add it to that file's PROVIDERS table.
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
    """Tells how far to trust a resource of the yard; `slipway yard status` prints it for every type."""

    BEHAVIOURAL = "behavioural"  # what it does on AWS happens here too
    MOTO = "backed by moto"  # can be read back and changed through its API; nothing happens
    RECORDED = "recorded only"  # its properties are kept and checked against the schema, no more


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
    role_arn: str = ""  # of the stack's execution role, which judges what is done; empty: an administrator's
    cancelled: threading.Event = field(default_factory=threading.Event)  # set: nobody wants the change now

    def pause(self, seconds: float, verb: str) -> None:
        """Wait before another look; raise ApiError in CloudFormation's words once nobody wants the change."""
        if self.cancelled.wait(seconds):
            noun = {"create": "creation", "delete": "deletion"}.get(verb.lower(), verb.lower())
            raise ApiError(CANCELLED, f"Resource {noun} cancelled")

    def uncancelled(self) -> Context:
        """Return the context of what is done to its end, such as removing what was half made."""
        return replace(self, cancelled=threading.Event())

    def client(self, service: str) -> Any:
        """A boto3 client to the yard's own endpoint."""
        from slipway.yard.endpoint import own_client

        return own_client(service, self.region)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Holds what was made: `Ref` gives the physical id, `Fn::GetAtt` an attribute (nested: dotted names)."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_another: bool = False  # an update made it beside the one before, which goes when the update is done


class Provider(Protocol):
    """One resource type. The engine decides between update and replacement (schema, nested.py)."""

    @property
    def fidelity(self) -> Fidelity: ...

    def create(self, context: Context, properties: Properties) -> Resource:
        """Make it, or raise ApiError and leave nothing behind."""
        ...

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        """Change it in place; all of it or nothing. A rollback calls it with old and new swapped.

        The physical id may change without a replacement: a job definition's is its newest revision's ARN.
        """
        ...

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        """Delete it; one that is already gone is no error."""
        ...

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        """The live values of the given properties, for drift; None when it is gone.

        A property that is not in the answer was taken away. NotImplementedError: drift is not checked.
        """
        ...
