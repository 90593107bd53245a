"""The data of a stack: its resources, its settings and tags, and the operations on it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.provider import Resource
from slipway.yard.cloudformation.template import schemas


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
    stack_tags: Mapping[str, str] = field(default_factory=dict)  # the stack's tags when the resource was made
    # Distinguishes a resource from its replacement. The physical id does not: the id of a job definition, the
    # ARN of its newest revision, changes without a replacement.
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One command that runs on a stack; its events carry both of its fields."""

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
    policy_during_update: str | None = None  # replaces the stack's policy during one update


# A stack's tags are given to each of its resources that can carry tags, as if its template set them.
# CloudFormation's own tags (aws:cloudformation:stack-name and its like) are left out: no service of the yard
# lets a caller set a tag that begins with aws:.
Tags = Mapping[str, str]


def with_stack_tags(resource_type: str, properties: Mapping[str, Any], tags: Tags) -> dict[str, Any]:
    """Return the properties with the stack's tags; a tag of the template wins over one of the stack's."""
    holder = schemas.tag_property(resource_type)
    if holder is None or not tags:
        return dict(properties)
    template_tags = properties.get(holder.name)
    if holder.is_map:
        return {**properties, holder.name: {**tags, **(template_tags or {})}}
    listed = [dict(tag) for tag in template_tags or []]
    taken = {tag.get("Key") for tag in listed}
    more = {"PropagateAtLaunch": True} if holder.propagates else {}
    added = [{"Key": key, "Value": value, **more} for key, value in tags.items() if key not in taken]
    return {**properties, holder.name: [*listed, *added]}


def tags_for(resource_type: str, now: Tags, at_creation: Tags | None) -> Tags:
    """Return the stack's tags for this resource: some types keep those that they were made with."""
    holder = schemas.tag_property(resource_type)
    if at_creation is None or holder is None or holder.is_updatable:
        return now
    return at_creation
