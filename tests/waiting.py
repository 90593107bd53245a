"""Waits of tests for what other programs do: look again until it is so, and fail at a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LOOK_AGAIN_S = 0.05  # what is awaited needs the processors that looking takes


def until(
    find: Callable[[], Found],
    otherwise: Callable[[], str] = lambda: "it never came to be",
    *,
    patience_s: float = 60.0,
    look_again_s: float = LOOK_AGAIN_S,
) -> Found:
    """Return the first that is found and true; fail with what `otherwise` says."""
    deadline = time.monotonic() + patience_s
    while not (found := find()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(look_again_s)
    return found
