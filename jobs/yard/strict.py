"""Refuse what AWS would refuse: moto takes nearly anything."""

from __future__ import annotations

from jobs.yard.wire import Call


def check(call: Call) -> None:
    """Raise ApiError, in the service's own words, for parameters that its model does not allow."""
