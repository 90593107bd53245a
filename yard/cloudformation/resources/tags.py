"""Tags that change in place: what was added or changed is set, what was taken away is removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import Setting, setting
from slipway.yard.cloudformation.resources.provider import Properties
from slipway.yard.cloudformation.resources.scope import Expression, ResourceScope, input_shape, resolve


def tags(
    tag: str = "tag_resource",
    untag: str = "untag_resource",
    *,
    of: str = "Tags",
    on_create: bool = False,
    **which: Any,
) -> Setting:
    """The property `of`, set by the API's two calls; `which` names the resource in both."""

    def retag(scope: ResourceScope) -> None:
        added, removed = changes(scope, of)
        named = resolve(which, scope)
        if removed:
            scope.send(untag, **named, **{_member(scope, untag, which): removed})
        if added:
            scope.send(tag, **named, **{_member(scope, tag, which): added})

    return setting(of, put=retag, on_create=on_create)


def ec2_tags(on_create: bool = False) -> Setting:
    """EC2 removes tags by a list of tags, not of keys."""

    def retag(scope: ResourceScope) -> None:
        added, removed = changes(scope, "Tags")
        if removed:
            scope.send("delete_tags", Resources=[scope.id], Tags=[{"Key": key} for key in removed])
        if added:
            scope.send("create_tags", Resources=[scope.id], Tags=added)

    return setting("Tags", put=retag, on_create=on_create)


def tag_specifications(kind: str) -> Expression:
    """The tags of a resource that EC2 creates."""

    def specifications(scope: ResourceScope) -> list[dict[str, Any]] | None:
        listed = [{"Key": key, "Value": value} for key, value in as_map(scope.properties, "Tags").items()]
        return [{"ResourceType": kind, "Tags": listed}] if listed else None

    return specifications


def changes(scope: ResourceScope, of: str) -> tuple[dict[str, str], list[str]]:
    """The tags to set and the keys to remove."""
    old, new = as_map(scope.before, of), as_map(scope.properties, of)
    return {key: value for key, value in new.items() if old.get(key) != value}, [
        key for key in old if key not in new
    ]


def as_map(properties: Properties, of: str) -> dict[str, str]:
    listed = properties.get(of) or {}
    if isinstance(listed, Mapping):
        return {key: str(value) for key, value in listed.items()}
    return {item["Key"]: str(item.get("Value", "")) for item in listed}


def _member(scope: ResourceScope, operation: str, which: Mapping[str, Any]) -> str:
    """Return this call's name for its tags or keys: tags, Tags, TagKeys, TagKeyList, …"""
    members = input_shape(scope.context.client(scope.service), operation).members
    return str(next(name for name in members if "tag" in name.lower() and name not in which))
