"""What somebody else can check a claim by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Names one request or command by which somebody else can check a claim."""

    what: str
    request_id: str
    at: str  # ISO 8601, UTC


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
