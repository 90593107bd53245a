"""CloudFormation's patience: it waits where a service throttles it, fails, or does not know a new thing yet.

Its own resource handlers do so for minutes ("Resource type handler contract", stabilization). A template that
names what nobody made fails at once here: it is waited for only while something is too new to be known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slipway.yard.chaos import conditions, consistency, throttling
from slipway.yard.chaos.gate import SERVER_ERROR
from slipway.yard.errors import ApiError

DEADLINE_S = 180.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

T = TypeVar("T")


def patiently(
    send: Callable[[], T],
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> T:
    """Return what the call returns, which is sent again while its refusal will pass."""
    deadline, due_s = now() + DEADLINE_S, FIRST_PAUSE_S
    while True:
        try:
            return send()
        except ApiError as error:
            if not will_pass(error) or now() > deadline:
                raise
        pause(due_s * (0.5 + conditions.draw("throttling", "pauses of CloudFormation") / 2))
        due_s = min(due_s * 2, LONGEST_PAUSE_S)


def will_pass(error: ApiError) -> bool:
    """Return True for a call that was not carried out, and may be once AWS has caught up."""
    if error.code in throttling.CODES or error.code == SERVER_ERROR:
        return True
    return error.code in consistency.CODES and consistency.is_settling()
