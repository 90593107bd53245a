"""Formats the numbers of an estimate for a table."""

from __future__ import annotations

from typing import Any

NO_BAND = "no band"


def rounded(places: int) -> Any:
    def form(value: object) -> str:
        assert isinstance(value, int | float)
        return f"{value:,.{places}f}"

    return form


def percent(value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value * 100:.1f} %"


def band(value: object) -> str:
    assert isinstance(value, int | float)
    return f"± {value * 100:.0f} %"


def steps(value: object) -> str:
    assert isinstance(value, int)
    return f"{value:,} ×"


def hours(value: object) -> str:
    """Format hours; shorter times are given in minutes or seconds."""
    assert isinstance(value, int | float)
    if value >= 1:
        return f"{value:,.1f} h"
    return f"{value * 60:.1f} min" if value * 60 >= 1 else f"{value * 3600:.0f} s"


def ends(form: Any) -> Any:
    """Return a format of a range, each end in the given one."""

    def both(value: object) -> str:
        assert isinstance(value, list | tuple)
        return f"{form(value[0])} to {form(value[1])}"

    return both
