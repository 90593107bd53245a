"""The exports of one region: unique by name, and unchangeable while another stack imports them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.yard.errors import ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    name: str
    value: str
    stack_id: str
    stack_name: str


class ExportTable:
    def __init__(self) -> None:
        self._exports: dict[str, Export] = {}
        self._imports: dict[str, tuple[str, frozenset[str]]] = {}  # stack id: its name and what it imports
        self._lock = threading.Lock()

    def all(self) -> tuple[Export, ...]:
        with self._lock:
            return tuple(self._exports[name] for name in sorted(self._exports))

    def look_up(self, name: str) -> str:
        """The value; ValidationError when nothing exports it."""
        with self._lock:
            if name not in self._exports:
                raise ApiError("ValidationError", f"No export named {name} found")
            return self._exports[name].value

    def importers(self, name: str) -> tuple[str, ...]:
        with self._lock:
            return self._importers(name)

    def hold(self, stack_id: str, stack_name: str, names: frozenset[str]) -> None:
        """Say what a stack imports from now on: nobody can change that under it."""
        with self._lock:
            missing = sorted(names - set(self._exports))
            if missing:
                raise ApiError("ValidationError", f"No export named {missing[0]} found")
            self._imports[stack_id] = (stack_name, names)

    def release(self, stack_id: str) -> None:
        with self._lock:
            self._imports.pop(stack_id, None)

    def publish(self, stack_id: str, stack_name: str, values: Mapping[str, str]) -> None:
        """Make these the exports of the stack, all or none; ValidationError for one taken or in use."""
        with self._lock:
            own = {name: one for name, one in self._exports.items() if one.stack_id == stack_id}
            for name in values:
                other = self._exports.get(name)
                if other is not None and other.stack_id != stack_id:
                    _refuse(f"Export with name {name} is already exported by stack {other.stack_name}")
            for name, export in own.items():
                self._refuse_change(name, export.value, values)
            for name in own:
                del self._exports[name]
            for name, value in values.items():
                self._exports[name] = Export(name=name, value=value, stack_id=stack_id, stack_name=stack_name)

    def _refuse_change(self, name: str, value: str, values: Mapping[str, str]) -> None:
        users = self._importers(name)
        if users and values.get(name) != value:
            verb = "updated" if name in values else "deleted"
            _refuse(f"Export {name} cannot be {verb} as it is in use by {' and '.join(users)}")

    def _importers(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(stack for stack, names in self._imports.values() if name in names))


def _refuse(message: str) -> None:
    raise ApiError("ValidationError", message)
