"""Computes what would change between two blueprints before anything is touched; change sets show it.

The engine asks `needs_replacement`, too, so a deployment does what its change set announced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slipway.yard.cloudformation.engine.records import (
    Operation,
    Record,
    StackSettings,
    Tags,
    tags_for,
    with_stack_tags,
)
from slipway.yard.cloudformation.resources import nested
from slipway.yard.cloudformation.template import schemas
from slipway.yard.cloudformation.template.blueprint import Blueprint, Planned
from slipway.yard.cloudformation.template.checks import PropertyProblem
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.scope import Pending, waits_for

NEVER, CONDITIONALLY, ALWAYS = "Never", "Conditionally", "Always"
ABSENT = object()

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One reason for a change: a property that differs, or a reference whose target changes."""

    attribute: str
    name: str | None = None
    path: str | None = None
    recreation: str = NEVER
    is_dynamic: bool = False
    source: str = "DirectModification"
    cause: str | None = None
    before: Any = ABSENT
    after: Any = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    action: str
    logical_id: str
    type: str
    physical_id: str | None = None
    replacement: str | None = None
    policy_action: str | None = None
    details: tuple[Detail, ...] = ()
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


def needs_replacement(resource_type: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return True if changing the old properties into the new ones takes a new resource."""
    paths = tuple(differences(old, new))
    answer, patterns = _recreation(resource_type, paths)
    if answer != CONDITIONALLY:
        return answer == ALWAYS
    return any(nested.replaces(resource_type, pattern, old, new) for pattern in patterns)


def _recreation(resource_type: str, paths: tuple[Path, ...]) -> tuple[str, tuple[str, ...]]:
    """Return ALWAYS, CONDITIONALLY or NEVER for a replacement, and the properties that cause it."""
    if not paths:
        return NEVER, ()
    if not schemas.is_updatable(resource_type):
        return ALWAYS, ()
    for answer, listed in (
        (ALWAYS, schemas.create_only(resource_type)),
        (CONDITIONALLY, schemas.conditional_create_only(resource_type)),
    ):
        patterns = tuple(one for one in listed if any(_covers(tuple(one.split("/")), path) for path in paths))
        if patterns:
            return answer, patterns
    return NEVER, ()


def _covers(pattern: Path, path: Path) -> bool:
    return len(pattern) <= len(path) and all(
        one in ("*", other) for one, other in zip(pattern, path, strict=False)
    )


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths at which the two differ, as deep as both can be followed."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from differences(_item(old, index), _item(new, index), (*path, str(index)))
    elif old is ABSENT and isinstance(new, Mapping) and new:
        # An added or removed object may hold the property that cannot change in place.
        yield from differences({}, new, path)
    elif new is ABSENT and isinstance(old, Mapping) and old:
        yield from differences(old, {}, path)
    elif old != new:
        yield path


def _item(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else ABSENT


def compare(
    old: Blueprint | None, new: Blueprint, records: Mapping[str, Record], tags: tuple[Tags, Tags] = ({}, {})
) -> tuple[Change, ...]:
    """Return every change from what exists to the new blueprint, in the order of deployment.

    `tags` are the stack's own, before and after: if they change, so does each resource that carries them.
    """
    changes: dict[str, Change] = {}
    for name, planned in new.resources.items():
        before = old.resources.get(name) if old else None
        if name not in records or before is None:
            changes[name] = Change(
                action="Add", logical_id=name, type=planned.declared.type, after=planned.properties
            )
        elif change := _modified(before, planned, records[name], changes, tags):
            changes[name] = change
    gone = [record for name, record in records.items() if name not in new.resources]
    removed = (
        Change(
            action="Remove",
            logical_id=record.logical_id,
            type=record.type,
            physical_id=record.resource.physical_id,
            policy_action="Delete" if record.deletion_policy in ("Delete", "Snapshot") else "Retain",
            before=record.properties,
        )
        for record in reversed(gone)
    )
    return (*changes.values(), *removed)


def _modified(
    before: Planned, after: Planned, record: Record, changes: Mapping[str, Change], tags: tuple[Tags, Tags]
) -> Change | None:
    details = (*_static(before, after), *_dynamic(after, changes))
    was, will = tags
    if was != will and (holder := schemas.tag_property(record.type)) and holder.is_updatable:
        details = (*details, Detail(attribute="Tags"))
    if not details:
        return None
    needs = {(detail.recreation, detail.is_dynamic) for detail in details}
    if (ALWAYS, False) in needs:
        replacement = "True"
    else:
        replacement = "Conditional" if any(need != NEVER for need, _ in needs) else "False"
    keeps = after.declared.update_replace_policy in ("Retain", "RetainExceptOnCreate")
    policy_action = "ReplaceAndRetain" if keeps else "ReplaceAndDelete"
    return Change(
        action="Modify",
        logical_id=record.logical_id,
        type=record.type,
        physical_id=record.resource.physical_id,
        replacement=replacement,
        policy_action=policy_action if replacement == "True" else None,
        details=details,
        before=record.properties,
        after=with_stack_tags(record.type, after.properties, tags_for(record.type, will, record.stack_tags)),
    )


def _static(before: Planned, after: Planned) -> Iterator[Detail]:
    old, new = before.properties, after.properties
    for name in sorted({*old, *new}):
        for path in differences({name: old.get(name, ABSENT)}, {name: new.get(name, ABSENT)}):
            yield Detail(
                attribute="Properties",
                name=name,
                path="/Properties/" + "/".join(path),
                recreation=_recreation(after.declared.type, (path,))[0],
                before=value_at(old, path),
                after=value_at(new, path),
            )
    if before.declared.metadata != after.declared.metadata:
        yield Detail(attribute="Metadata")
    if before.declared.deletion_policy != after.declared.deletion_policy:
        yield Detail(attribute="DeletionPolicy")
    if before.declared.update_replace_policy != after.declared.update_replace_policy:
        yield Detail(attribute="UpdateReplacePolicy")


def value_at(value: Any, path: Path) -> Any:
    """Return the value at the path, or ABSENT."""
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step, ABSENT)
        elif isinstance(value, list) and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def _dynamic(after: Planned, changes: Mapping[str, Change]) -> Iterator[Detail]:
    """Yield the references whose value changes because their target is replaced or changed."""
    for path, value in _pendings(after.properties):
        for reference in sorted(value.references, key=str):
            if _will_change(reference, changes):
                yield Detail(
                    attribute="Properties",
                    name=path[0],
                    path="/Properties/" + "/".join(path),
                    recreation=_recreation(after.declared.type, (path,))[0],
                    is_dynamic=True,
                    source="ResourceAttribute" if reference.attribute else "ResourceReference",
                    cause=".".join(filter(None, (reference.logical_id, reference.attribute))),
                )


def _will_change(reference: Reference, changes: Mapping[str, Change]) -> bool:
    change = changes.get(reference.logical_id)
    if change is None or change.action != "Modify":
        return False
    touched = any(detail.attribute == "Properties" for detail in change.details)
    return change.replacement != "False" or (reference.attribute is not None and touched)


def _pendings(value: Any, path: Path = ()) -> Iterator[tuple[Path, Pending]]:
    if isinstance(value, Pending):
        yield path, value
    elif isinstance(value, Mapping) and waits_for(dict(value)):
        for key, item in value.items():
            yield from _pendings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pendings(item, (*path, str(index)))


# A change set says what its execution would do; this is decided when it is created.
NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
EARLY_VALIDATION = (
    "The following hook(s)/validation failed: [AWS::EarlyValidation::PropertyValidation]. To troubleshoot"
    " Early Validation errors, use the DescribeEvents API for detailed failure information."
)


@dataclass(slots=True, kw_only=True)
class ChangeSet:
    change_set_id: str
    name: str
    kind: str  # CREATE or UPDATE
    description: str | None
    created_at: datetime
    blueprint: Blueprint
    settings: StackSettings
    operation: Operation
    changes: tuple[Change, ...]
    problems: tuple[PropertyProblem, ...]
    reason: str | None = None
    execution_status: str = "AVAILABLE"

    @property
    def status(self) -> str:
        return "FAILED" if self.reason else "CREATE_COMPLETE"
