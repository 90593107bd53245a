"""The marks of lines in a job's log, as containers/runtime/observe/log_pump.py and recipes write them."""

from __future__ import annotations

import re

ERROR = "error: "  # launchers and recipes begin with it what a person should read
_RANK = re.compile(r"\[([0-9]{1,6})\] ")


def rank_of(line: str) -> int | None:
    """Return the rank that wrote the line; None if a launcher did."""
    found = _RANK.match(line)
    return int(found[1]) if found else None


def last_error(lines: list[str]) -> str | None:
    """Return the last error, that of a rank if there is one: launchers only say that a rank ended."""
    errors = [line for line in lines if ERROR in line]
    of_ranks = [line for line in errors if rank_of(line) is not None]
    return next(reversed(of_ranks or errors), None)
