"""Types that are kept and nothing more: the yard has nothing behind them, and nothing of ours hangs on them.

To add one: a Recorded row with the shape of its id and its attributes. Look at what is kept with `records`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Context, Fidelity, Properties, Resource
from slipway.yard.cloudformation.resources.scope import Expression, ResourceScope, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord:
    region: str
    type: str
    physical_id: str
    properties: Properties
    attributes: Mapping[str, Any]


# What this process's yard keeps. It goes when the yard goes, as moto's back ends do.
_STORE: dict[tuple[str, str, str], ResourceRecord] = {}


def reset() -> None:
    _STORE.clear()


def records(kind: str = "", region: str = "") -> tuple[ResourceRecord, ...]:
    """Return what is recorded now, limited to a type and a region where given."""
    return tuple(
        record for record in _STORE.values() if kind in ("", record.type) and region in ("", record.region)
    )


def keep(record: ResourceRecord) -> None:
    _STORE[record.region, record.type, record.physical_id] = record


def forget(region: str, kind: str, physical_id: str) -> None:
    _STORE.pop((region, kind, physical_id), None)


def is_only_recorded(kind: str, physical_id: str) -> bool:
    """Return True if a stack recorded it and no service knows it: nothing of one can be put on it."""
    return any(record.physical_id == physical_id for record in records(kind))


def recall(region: str, kind: str, physical_id: str) -> ResourceRecord | None:
    return _STORE.get((region, kind, physical_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """`identity` sees the properties and, as {id}, a fresh random number; `attributes` see the final id."""

    type: str
    identity: Expression
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: Name | None = None
    fidelity: Fidelity = Fidelity.RECORDED

    def create(self, context: Context, properties: Properties) -> Resource:
        named = self.name.given(context, properties) if self.name else properties
        scope = ResourceScope(context=context, service="", id=secrets.token_hex(9)[:17], properties=named)
        return self._keep(context, str(self.identity(scope)), named)

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        kept = recall(context.region, self.type, resource.physical_id)
        named = {self.name.property: kept.properties[self.name.property]} if self.name and kept else {}
        return self._keep(context, resource.physical_id, {**named, **new})

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        forget(context.region, self.type, resource.physical_id)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        kept = recall(context.region, self.type, resource.physical_id)
        return (
            {name: kept.properties[name] for name in properties if name in kept.properties} if kept else None
        )

    def _keep(self, context: Context, physical_id: str, properties: Properties) -> Resource:
        scope = ResourceScope(context=context, service="", id=physical_id, properties=properties)
        attributes = resolve(self.attributes, scope)
        keep(
            ResourceRecord(
                region=context.region,
                type=self.type,
                physical_id=physical_id,
                properties=properties,
                attributes=attributes,
            )
        )
        return Resource(physical_id=physical_id, attributes=attributes)
