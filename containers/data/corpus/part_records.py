"""The records of parts, in .made below the folder of what is made: a part that has one needs no more work."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from slipway.containers.data.corpus.claim import MADE
from slipway.containers.data.errors import DataError
from slipway.containers.data.text.documents import decoded, read_json


class PlannedRecord(Protocol):
    @property
    def plan(self) -> str:
        """Return the digest of the plan that the part was made by."""


R = TypeVar("R", bound=PlannedRecord)


def record_path(folder: Path, number: int) -> Path:
    return folder / MADE / f"{number:05}.json"


def read_record(record_type: type[R], folder: Path, number: int, plan: str) -> R | None:
    """Return the record of a part; None for one that is absent, damaged or of another plan."""
    path = record_path(folder, number)
    try:
        record = decoded(record_type, read_json(path), folder) if path.exists() else None
    except DataError:
        return None
    return record if record is not None and record.plan == plan else None
