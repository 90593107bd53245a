"""Removal of a whole stack, each resource before what it depends on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from slipway.yard.cloudformation.engine import reasons
from slipway.yard.cloudformation.engine.records import Operation, Record
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.cloudformation.engine.steps import EngineServices, StepFailed, Steps
from slipway.yard.errors import ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown:
    """`retained` names resources to leave where they are; with `is_forced` so are all that will not go."""

    stack: Stack
    operation: Operation
    surroundings: EngineServices
    status_before: str = "DELETE_FAILED"  # what the stack goes back to where it may not be deleted
    retained: Collection[str] = ()
    is_forced: bool = False

    @property
    def steps(self) -> Steps:
        return Steps(stack=self.stack, operation=self.operation, surroundings=self.surroundings)

    def run(self) -> None:
        try:
            self.surroundings.exports.publish(self.stack.stack_id, self.stack.name, {})
        except ApiError as error:
            refusal = error.message.replace("Export", "Delete canceled. Cannot delete export", 1)
            self.stack.set_status(
                self.operation, self.status_before, refusal.replace(" cannot be deleted", "", 1)
            )
            return
        left = self._remove_all()
        if left:
            self.stack.set_status(self.operation, "DELETE_FAILED", reasons.failed("delete", left))
            return
        self._end()

    def _end(self) -> None:
        self.surroundings.exports.release(self.stack.stack_id)
        with self.stack.lock:
            self.stack.records.clear()
            self.stack.base = None
            self.stack.doomed.clear()
            self.stack.deleted_at = datetime.now(UTC)
            self.stack.set_status(self.operation, "DELETE_COMPLETE")

    def _remove_all(self) -> list[str]:
        """The names of the resources that would not go, and no others that they stand on."""
        left: list[Record] = []
        blocked: set[str] = set()
        for group in self.stack.everything():
            for record in group:
                if record.logical_id in blocked:
                    blocked.update(record.dependencies)
                elif not self._remove(record):
                    left.append(record)
                    blocked.update(record.dependencies)
        return [record.logical_id for record in left]

    def _remove(self, record: Record) -> bool:
        if record.deletion_policy.startswith("Retain") or record.logical_id in self.retained:
            self.steps.skip(record)
        else:
            try:
                self.steps.delete(record)
            except StepFailed:
                if not self.is_forced:
                    return False
                self.steps.skip(record)
        self._forget(record)
        return True

    def _forget(self, record: Record) -> None:
        with self.stack.lock:
            if self.stack.records.get(record.logical_id) is record:
                del self.stack.records[record.logical_id]
            if record in self.stack.doomed:
                self.stack.doomed.remove(record)
            if self.stack.base is not None:
                older = self.stack.base.records.items()
                kept = {name: one for name, one in older if one.identity != record.identity}
                self.stack.base = replace(self.stack.base, records=kept)
