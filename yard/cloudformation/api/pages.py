"""A long list, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from slipway.yard.cloudformation.engine.engine import StackRequest
from slipway.yard.errors import ApiError

T = TypeVar("T")


def page(items: Sequence[T], call: StackRequest, *, size: int) -> tuple[Sequence[T], dict[str, str]]:
    """The page that NextToken names, and the token of the one after it, if any."""
    token = str(call.get("NextToken", "0"))
    if not token.isdigit():
        raise ApiError("ValidationError", f"NextToken '{token}' is none that the yard gave out")
    start = int(token)
    end = start + min(int(call.get("MaxResults", size)), size)
    return items[start:end], {"NextToken": str(end)} if end < len(items) else {}
