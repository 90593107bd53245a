"""What a look for drift found: of one resource, and of a whole stack."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.cloudformation.engine.records import Record


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
