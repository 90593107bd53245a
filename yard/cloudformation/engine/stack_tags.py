"""A stack's tags, given to each of its resources that can carry tags, as its template's own would be.

CloudFormation's own tags (aws:cloudformation:stack-name and its like) are left out: no service of the yard
lets a caller set a tag that begins with aws:.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.template import schemas

Tags = Mapping[str, str]


def with_stack_tags(resource_type: str, properties: Mapping[str, Any], tags: Tags) -> dict[str, Any]:
    """The properties with the stack's tags; a tag of the template wins over one of the stack's."""
    holder = schemas.tag_property(resource_type)
    if holder is None or not tags:
        return dict(properties)
    own = properties.get(holder.name)
    if holder.is_map:
        return {**properties, holder.name: {**tags, **(own or {})}}
    listed = [dict(tag) for tag in own or []]
    taken = {tag.get("Key") for tag in listed}
    more = {"PropagateAtLaunch": True} if holder.propagates else {}
    added = [{"Key": key, "Value": value, **more} for key, value in tags.items() if key not in taken]
    return {**properties, holder.name: [*listed, *added]}


def tags_for(resource_type: str, now: Tags, at_creation: Tags | None) -> Tags:
    """The stack's tags as this resource gets them: some types keep those that they were made with."""
    holder = schemas.tag_property(resource_type)
    if at_creation is None or holder is None or holder.is_updatable:
        return now
    return at_creation
