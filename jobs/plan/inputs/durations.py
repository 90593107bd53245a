"""Times as people write them: 24h, 90m, 1d12h, or seconds."""

from __future__ import annotations

import math
import re

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1, "": 1}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([dhms]?)")
RULE = "write seconds, or 24h, 90m, 1d12h"


def parse_duration(text: str) -> int | None:
    """Return whole seconds, and None for anything else; a bare number stands alone."""
    written = text.strip().lower().replace(" ", "")
    parts = _PART.findall(written)
    if not parts or "".join(map("".join, parts)) != written:
        return None
    if len(parts) > 1 and any(not unit for _, unit in parts):
        return None
    return math.floor(sum(float(number) * _UNITS[unit] for number, unit in parts))
