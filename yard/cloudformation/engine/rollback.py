"""Rolls a stack back after a failed operation: undoes changes in place, removes new resources.

It also removes whole stacks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain

from slipway.yard.cloudformation.engine import steps
from slipway.yard.cloudformation.engine.records import Record, tags_for
from slipway.yard.cloudformation.engine.resolution import resolve, scope_of
from slipway.yard.cloudformation.engine.stack import Snapshot, removal_order
from slipway.yard.cloudformation.engine.steps import StepFailed, Steps
from slipway.yard.cloudformation.template.blueprint import Planned
from slipway.yard.cloudformation.template.scope import waits_for
from slipway.yard.errors import ApiError

SKIPPED = "Resource skipped during UpdateRollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(Steps):
    """Rolls back; it has its own `operation`, so the CDK can distinguish it from the one that failed."""

    retain_except_on_create: bool = False

    @property
    def prefix(self) -> str:
        base = self.stack.base
        return "UPDATE_" if base and base.blueprint else ""

    def announce(self, reason: str) -> None:
        self._set_status(f"{self.prefix}ROLLBACK_IN_PROGRESS", reason)

    def run(self, skipped: Collection[str] | None = ()) -> None:
        """Roll back, but leave `skipped` resources as they are; None: all that cannot be restored."""
        base = self.stack.base
        assert base is not None, "nothing to go back to"
        if stuck := self._restore(base, skipped):
            self._end_stuck(steps.failed("update", stuck))
            return
        if self.prefix:
            self._set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        left = self._remove_new(base)
        if left and not self.prefix:
            self._end_stuck(steps.failed("delete", left))
            return
        status = f"{self.prefix}ROLLBACK_COMPLETE"
        imports = base.blueprint.imports if base.blueprint else frozenset()
        self.surroundings.exports.hold(self.stack.stack_id, self.stack.name, imports)
        if base.blueprint:
            self.stack.blueprint, self.stack.settings = base.blueprint, base.settings
            self.stack.settle()
        else:
            # A stack whose creation failed still shows what became of its resources.
            self.stack.base = None
            self.stack.doomed.clear()
            self.stack.dirty.clear()
        self._set_status(status)

    def _end_stuck(self, reason: str) -> None:
        self._set_status(f"{self.prefix}ROLLBACK_FAILED", reason)

    def _restore(self, base: Snapshot, skipped: Collection[str] | None) -> list[str]:
        """Restore the earlier resources in their order; return the names of those that could not be."""
        stuck = []
        for name, planned in base.blueprint.resources.items() if base.blueprint else ():
            if name not in base.records:
                continue
            if skipped is not None and name in skipped:
                self._leave(base.records[name])
                continue
            try:
                self._restore_one(base, planned)
            except (StepFailed, ApiError):
                if skipped is None:
                    self._leave(base.records[name])
                else:
                    stuck.append(name)
        return stuck

    def _leave(self, old: Record) -> None:
        current = self.stack.records.get(old.logical_id, old)
        self.stack.dirty.pop(old.logical_id, None)
        subject = (old.logical_id, current.resource.physical_id, old.type)
        self._note(subject, "UPDATE_COMPLETE", SKIPPED)

    def _restore_one(self, base: Snapshot, planned: Planned) -> None:
        name = planned.declared.logical_id
        old, current = base.records[name], self.stack.records[name]
        if old.identity != current.identity:
            self.stack.doomed.append(current)
            self._record(old, "UPDATE_COMPLETE")
            current = old
        properties = old.properties
        if waits_for(dict(planned.properties)):
            # What it refers to may have a new version or revision, even if this resource was not touched.
            assert base.blueprint is not None
            tags = tags_for(old.type, base.settings.tags, old.stack_tags)
            properties = resolve(planned, scope_of(self.stack, base.blueprint, self.surroundings), tags)
        if properties == current.properties and name not in self.stack.dirty:
            record = replace(old, resource=current.resource, properties=properties)
            last = self.stack.latest.get(record.logical_id)
            if last is not None and last.status.endswith("_FAILED"):
                self._record(record, "UPDATE_COMPLETE")
        else:
            record = self.update(current, planned, properties)
        with self.stack.lock:
            self.stack.records[name] = record

    def _remove_new(self, base: Snapshot) -> list[str]:
        """Remove what the failed operation made; return the names of what could not be deleted."""
        new = [record for record in self.stack.records.values() if record.logical_id not in base.records]
        left: list[Record] = []
        for record in removal_order([*self.stack.doomed, *new]):
            is_new = record.logical_id not in base.records
            needed = any(record.logical_id in other.dependencies for other in left)
            if needed or not self._remove(record, is_new=is_new):
                left.append(record)
            elif is_new:
                with self.stack.lock:
                    del self.stack.records[record.logical_id]
        if self.prefix:
            self._abandon(left)
        return [record.logical_id for record in left]

    def _remove(self, record: Record, *, is_new: bool) -> bool:
        retains = record.deletion_policy == "Retain" and is_new and not self.retain_except_on_create
        if retains:
            self.skip(record)
            return True
        if self.prefix:
            return self.delete_or_leave(record)
        try:
            self.delete(record)
        except StepFailed:
            return False
        return True

    def _abandon(self, left: list[Record]) -> None:
        """Forget what could not be deleted: the rollback of an update leaves it behind."""
        with self.stack.lock:
            for record in left:
                if self.stack.records.get(record.logical_id) is record:
                    del self.stack.records[record.logical_id]


# The removal of a whole stack.


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown(Steps):
    """Deletes a stack, each resource before those that it depends on.

    `retained` names resources to keep; `is_forced` also keeps all that cannot be deleted.
    """

    status_before: str = "DELETE_FAILED"  # the status to return to if the stack may not be deleted
    retained: Collection[str] = ()
    is_forced: bool = False

    def run(self) -> None:
        try:
            self.surroundings.exports.publish(self.stack.stack_id, self.stack.name, {})
        except ApiError as error:
            refusal = error.message.replace("Export", "Delete canceled. Cannot delete export", 1)
            self._set_status(self.status_before, refusal.replace(" cannot be deleted", "", 1))
            return
        left: list[str] = []
        blocked: set[str] = set()  # what those that could not be deleted depend on
        for record in chain.from_iterable(self.stack.everything()):
            if record.logical_id in blocked:
                blocked.update(record.dependencies)
            elif not self._remove(record):
                left.append(record.logical_id)
                blocked.update(record.dependencies)
        if left:
            self._set_status("DELETE_FAILED", steps.failed("delete", left))
            return
        self.surroundings.exports.release(self.stack.stack_id)
        with self.stack.lock:
            self.stack.records.clear()
            self.stack.base = None
            self.stack.doomed.clear()
            self.stack.deleted_at = datetime.now(UTC)
            self._set_status("DELETE_COMPLETE")

    def _remove(self, record: Record) -> bool:
        if record.deletion_policy.startswith("Retain") or record.logical_id in self.retained:
            self.skip(record)
        else:
            try:
                self.delete(record)
            except StepFailed:
                if not self.is_forced:
                    return False
                self.skip(record)
        with self.stack.lock:
            if self.stack.records.get(record.logical_id) is record:
                del self.stack.records[record.logical_id]
            if record in self.stack.doomed:
                self.stack.doomed.remove(record)
            if self.stack.base is not None:
                older = self.stack.base.records.items()
                remaining = {name: one for name, one in older if one.identity != record.identity}
                self.stack.base = replace(self.stack.base, records=remaining)
        return True
