"""When a job that waited for others began: its main node writes the moment into its log, and laptops read it.

Systems Manager counts from the start of the command, and that is the start of the wait.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_LINE = re.compile(r"^\[run\] begins at (\S+)$", re.MULTILINE)


def begins_line(moment: datetime) -> str:
    """Return the words that follow the mark of the main node's own lines."""
    return f"begins at {moment.astimezone(UTC).isoformat(timespec='seconds')}"


def begun_at(log: str) -> datetime | None:
    """Return the moment that a job's log names; None where it has not begun."""
    found = _LINE.search(log)
    try:
        return datetime.fromisoformat(found[1]).astimezone(UTC) if found else None
    except ValueError:
        return None
