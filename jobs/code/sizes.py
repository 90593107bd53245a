"""How large a folder may be that is sent to the nodes, and how sizes are said."""

from __future__ import annotations

MEGABYTE, KILOBYTE = 1_000_000, 1_000
DEFAULT_LIMIT_MB = 200
LARGEST_LIMIT_MB = 5_000  # every node reads it at every attempt; what is larger is data


def megabytes(size_bytes: int) -> str:
    """Return the size in megabytes, or in kilobytes where that would be none."""
    if size_bytes < MEGABYTE / 10:
        return f"{size_bytes / KILOBYTE:.1f} kB"
    return f"{size_bytes / MEGABYTE:,.1f} MB"
