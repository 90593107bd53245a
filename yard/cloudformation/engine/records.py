"""What a stack is made of: its resources, its settings and the operations on it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.provider import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One resource that exists, as it was last deployed."""

    logical_id: str
    type: str
    resource: Resource
    properties: Mapping[str, Any]
    dependencies: tuple[str, ...]
    deletion_policy: str
    update_replace_policy: str
    default_name: str
    stack_tags: Mapping[str, str] = field(default_factory=dict)  # those that it was made with
    # Tells a resource from its replacement. The physical id does not: that of a job definition, which is the
    # ARN of its newest revision, changes in place.
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One command that runs on a stack; its events carry both."""

    kind: str
    token: str | None = None
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """Holds what a caller sets for a stack besides its template and parameters."""

    tags: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    notification_arns: tuple[str, ...] = ()
    role_arn: str | None = None
    rollback_configuration: Mapping[str, Any] = field(default_factory=dict)
    deployment_mode: str | None = None
    disable_rollback: bool = False
    on_failure: str = "ROLLBACK"
    retain_except_on_create: bool = False
    policy_during_update: str | None = None  # instead of the stack's own, for one update
