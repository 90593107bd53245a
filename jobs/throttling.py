"""Waits for AWS while it throttles questions, for longer each time, up to a deadline, and says so.

botocore's own standard mode gives up after three attempts and says nothing meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

DEADLINE_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0
QUIET_SECONDS = 2.0  # a pause shorter than that goes unsaid

TOO_MANY_REQUESTS = 429
CODES = frozenset(
    {
        "CallRateLimitExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_SINCE, _TRIED = "slipway_throttled_since", "slipway_throttled_times"

# The chance and the clock; tests take others.
share: Callable[[], float] = random.random  # of the pause that is due
now: Callable[[], float] = time.monotonic


def is_throttled(response: Mapping[str, Any]) -> bool:
    """Read one of botocore's answers: some services throttle with a code, some with a status alone."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return response.get("Error", {}).get("Code") in CODES or status == TOO_MANY_REQUESTS


def be_patient(client: Any, say: Callable[[str], None]) -> None:
    """Make a client that only asks wait out throttling; `say` hears of every longer pause."""

    def pause(
        response: tuple[Any, Mapping[str, Any]] | None,
        operation: Any,
        request_dict: Mapping[str, Any],
        **_: Any,
    ) -> float | None:
        """Return the seconds after which botocore asks again; None leaves it to botocore."""
        if response is None or not is_throttled(response[1]):
            return None
        context = request_dict["context"]
        since, tried = context.setdefault(_SINCE, now()), context.get(_TRIED, 0)
        context[_TRIED] = tried + 1
        due: float = min(FIRST_PAUSE_SECONDS * 2**tried, LONGEST_PAUSE_SECONDS)
        left = DEADLINE_SECONDS - (now() - since)
        if due > left:
            return None
        if due >= QUIET_SECONDS:
            say(throttled(f"{operation.service_model.service_id} {operation.name}", left))
        return due * share()

    client.meta.events.register_first("needs-retry", pause)


def throttled(what: str, left_seconds: float) -> str:
    return f"AWS throttles {what}: it is tried again, for at most {left_seconds:.0f} more seconds"
