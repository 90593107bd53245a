"""Waits for AWS while it throttles, for longer each time, up to a deadline, and says so.

botocore's own standard mode gives up after three attempts and says nothing meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
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
# What leaves the same behind when it is done twice, so that a lost answer is no reason to give up.
SAFE_TWICE = frozenset(
    {
        "CancelCommand",
        "CancelJob",
        "DeleteObject",
        "DeleteObjects",
        "PutObject",
        "SetDesiredCapacity",
        "SetInstanceProtection",
        "TerminateJob",
    }
)
SERVER_ERRORS = frozenset({500, 502, 503, 504})
_THROTTLED, _FAILED, _UNANSWERED = "AWS throttles", "AWS failed in", "AWS did not answer"
_SINCE, _TRIED = "slipway_throttled_since", "slipway_throttled_times"

# The chance and the clock; tests take others.
share: Callable[[], float] = random.random  # of the pause that is due
now: Callable[[], float] = time.monotonic


def is_throttled(response: Mapping[str, Any]) -> bool:
    """Read one of botocore's answers: some services throttle with a code, some with a status alone."""
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return response.get("Error", {}).get("Code") in CODES or status == TOO_MANY_REQUESTS


def be_patient(client: Any, say: Callable[[str], None], safe_twice: AbstractSet[str] = frozenset()) -> None:
    """Make a client wait out throttling; `say` hears of every longer pause.

    Operations of `safe_twice` are also sent again where AWS failed or its answer was lost.
    """

    def pause(
        response: tuple[Any, Mapping[str, Any]] | None,
        operation: Any,
        request_dict: Mapping[str, Any],
        caught_exception: Exception | None = None,
        **_: Any,
    ) -> float | None:
        """Return the seconds after which botocore asks again; None leaves it to botocore."""
        is_safe = operation.name in safe_twice
        trouble = _trouble(response, is_safe) if response else _silence(caught_exception, is_safe)
        if trouble is None:
            return None
        context = request_dict["context"]
        since, tried = context.setdefault(_SINCE, now()), context.get(_TRIED, 0)
        context[_TRIED] = tried + 1
        due: float = min(FIRST_PAUSE_SECONDS * 2**tried, LONGEST_PAUSE_SECONDS)
        left = DEADLINE_SECONDS - (now() - since)
        if due > left:
            return None
        if due >= QUIET_SECONDS:
            say(again(trouble, f"{operation.service_model.service_id} {operation.name}", left))
        return due * share()

    client.meta.events.register_first("needs-retry", pause)


def throttled(what: str, left_seconds: float) -> str:
    return again(_THROTTLED, what, left_seconds)


def again(trouble: str, what: str, left_seconds: float) -> str:
    return f"{trouble} {what}: it is tried again, for at most {left_seconds:.0f} more seconds"


def _silence(error: Exception | None, is_safe_twice: bool) -> str | None:
    """Say that an answer was lost, of what may be asked again; None where nobody was reached at all."""
    from botocore.exceptions import HTTPClientError

    return _UNANSWERED if is_safe_twice and isinstance(error, HTTPClientError) else None


def _trouble(response: tuple[Any, Mapping[str, Any]], is_safe_twice: bool) -> str | None:
    """Say what is wrong with an answer that another try may mend; None for every other answer."""
    if is_throttled(response[1]):
        return _THROTTLED
    status = response[1].get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _FAILED if is_safe_twice and status in SERVER_ERRORS else None
