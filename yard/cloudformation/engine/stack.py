"""What the yard keeps of a stack: its resources, its events, its status and its drift.

Only the one operation that runs on a Stack changes it; readers hold its lock. Setting `cancelled` stops that
operation where it waits, and before its next resource.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from slipway.yard.cloudformation.engine.changes import ChangeSet
from slipway.yard.cloudformation.engine.records import Operation, Record, StackSettings
from slipway.yard.cloudformation.template import references
from slipway.yard.cloudformation.template.blueprint import Blueprint

STACK_TYPE = "AWS::CloudFormation::Stack"
# Answers show milliseconds, and the CDK sorts events by time, so two events are at least this far apart.
TICK = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    event_id: str
    operation: Operation
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    timestamp: datetime
    properties: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    key: str
    value: str
    description: str | None = None
    export_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Holds the state to which a failed operation returns; no blueprint if the stack did not exist before."""

    blueprint: Blueprint | None
    settings: StackSettings
    records: Mapping[str, Record]


@dataclass(slots=True, kw_only=True)
class Stack:
    name: str
    stack_id: str
    region: str
    created_at: datetime
    status: str
    reason: str | None = None
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    blueprint: Blueprint | None = None
    settings: StackSettings = field(default_factory=StackSettings)
    records: dict[str, Record] = field(default_factory=dict)
    latest: dict[str, Event] = field(default_factory=dict)  # of each resource that answers show
    outputs: tuple[Output, ...] = ()
    events: list[Event] = field(default_factory=list)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    drifts: dict[str, ResourceDrift] = field(default_factory=dict)
    detection: Detection | None = None
    change_set_id: str | None = None
    policy: str | None = None
    is_protected: bool = False
    # While an operation has not succeeded yet:
    base: Snapshot | None = None
    doomed: list[Record] = field(default_factory=list)  # new resources that a rollback no longer wants
    dirty: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # what a failed update tried to set
    cancelled: threading.Event = field(default_factory=threading.Event)
    worker: threading.Thread | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_busy(self) -> bool:
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def is_gone(self) -> bool:
        return self.status == "DELETE_COMPLETE"

    def set_status(self, operation: Operation, status: str, reason: str | None = None) -> None:
        with self.lock:
            self.status = status
            self.reason = reason
            self._append(operation, (self.name, self.stack_id, STACK_TYPE), status, reason)

    def note(
        self,
        operation: Operation,
        subject: tuple[str, str, str],
        status: str,
        reason: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event of one resource; `subject` is its logical id, physical id and type."""
        with self.lock:
            event = self._append(operation, subject, status, reason, properties)
            # The deletion of a replaced resource is not the status of its replacement.
            current = self.records.get(subject[0])
            is_current = current is None or subject[1] == current.resource.physical_id
            if is_current or not status.startswith("DELETE"):
                self.latest[subject[0]] = event

    def _append(
        self,
        operation: Operation,
        subject: tuple[str, str, str],
        status: str,
        reason: str | None,
        properties: Mapping[str, Any] | None = None,
    ) -> Event:
        logical_id, physical_id, resource_type = subject
        timestamp = datetime.now(UTC)
        if self.events:
            timestamp = max(timestamp, self.events[-1].timestamp + TICK)
        number = f"{logical_id}-{status}-{timestamp:%Y-%m-%dT%H:%M:%S.%f}"
        event = Event(
            event_id=str(uuid.uuid4()) if resource_type == STACK_TYPE else number,
            operation=operation,
            logical_id=logical_id,
            physical_id=physical_id,
            type=resource_type,
            status=status,
            reason=reason,
            timestamp=timestamp,
            properties=properties,
        )
        self.events.append(event)
        return event

    def begin(self) -> None:
        """Keep the state for a rollback; an operation that resumes a failed one keeps the older state."""
        self.cancelled = threading.Event()
        if self.base is None:
            self.base = Snapshot(blueprint=self.blueprint, settings=self.settings, records=dict(self.records))

    def settle(self) -> None:
        """Drop the snapshot: no rollback can follow."""
        with self.lock:
            self.base = None
            self.doomed.clear()
            self.dirty.clear()
            for logical_id in set(self.latest) - set(self.records):
                del self.latest[logical_id]

    def everything(self) -> tuple[Sequence[Record], ...]:
        """Return every resource that may exist, in groups that are removed one after the other."""
        older = self.base.records if self.base else {}
        held = {record.identity for record in (*self.records.values(), *self.doomed)}
        left = [record for record in older.values() if record.identity not in held]
        return removal_order(self.records.values()), removal_order(self.doomed), removal_order(left)


def removal_order(records: Iterable[Record]) -> Sequence[Record]:
    """Return the resources so that each comes before those that it depends on."""
    by_name = {record.logical_id: record for record in records}
    order = references.order({name: record.dependencies for name, record in by_name.items()})
    return [by_name[name] for name in reversed(order)]


# The result of drift detection, for one resource and for a whole stack.


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDifference:
    path: str
    kind: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDrift:
    record: Record
    status: str
    actual: Mapping[str, Any] | None = None
    differences: tuple[PropertyDifference, ...] = ()
    reason: str | None = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    stack_id: str
    status: str
    drifted: int
    detection_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
