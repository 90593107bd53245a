"""How large a folder may be that is sent to the nodes, and how sizes are said."""

from __future__ import annotations

MEGABYTE = 1_000_000
DEFAULT_LIMIT_MB = 200
LARGEST_LIMIT_MB = 5_000  # every node reads it at every attempt; what is larger is data


def megabytes(size_bytes: int) -> str:
    return f"{size_bytes / MEGABYTE:,.1f} MB"
