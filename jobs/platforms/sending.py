"""Sends a request that must not be carried out twice: it is repeated only if it certainly was not carried
out.

If throttled, it was refused, and is sent again after a pause. After no answer or a 5xx nobody knows, so the
platform is asked for the job. Every other answer is final. botocore itself never repeats it
(jobs/cloud/aws.py, `sender`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from slipway.jobs.cloud.aws import is_throttled, throttled
from slipway.jobs.words.errors import SlipwayError

DEADLINE_SECONDS = 120.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 20.0
# AWS's lists may not yet have a job that it accepted.
LOOKS = 3
LOOK_PAUSE_SECONDS = 2.0

_SERVER_ERROR, _NOT_IMPLEMENTED = 500, 501  # RFC 9110: after the second it was certainly not carried out


class NotSubmitted(SlipwayError):
    """The platform did not accept the job in time; it was certainly not submitted."""


class Unsettled(SlipwayError):
    """The answer was lost, and the platform does not list the job; it may have been submitted."""


class Outcome(Enum):
    THROTTLED = auto()
    UNCERTAIN = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Holds the clock and the chance, so that tests can replace them."""

    pause: Callable[[float], None]
    now: Callable[[], float]
    share: Callable[[], float]  # of the pause that is due, from 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCall:
    """Describes one submission; sending it returns the id of the job."""

    name: str
    service: str
    send: Callable[[], str]


def send_once(
    call: SubmitCall,
    *,
    find: Callable[[], str | None],
    refused: Callable[[], None],
    waiting: Waiting,
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """Send and return the job's id. `find` looks for it by name; `refused` is called if there is none."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    deadline = waiting.now() + DEADLINE_SECONDS
    due, is_uncertain = FIRST_PAUSE_SECONDS, False
    while True:
        try:
            return call.send()
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            answer: Exception = error
        outcome = outcome_of(answer)
        if outcome is Outcome.UNCERTAIN:
            is_uncertain = True
            if found := _look(call, find, answer, waiting):
                return found
        is_late = waiting.now() + due > deadline
        if (outcome is Outcome.REFUSED or is_late) and not is_uncertain:
            refused()
        if outcome is Outcome.REFUSED:
            raise answer
        if is_late:
            raise _given_up(call, answer, is_uncertain) from answer
        if outcome is Outcome.THROTTLED:
            say(throttled(f"the submission of {call.name}", deadline - waiting.now()))
        else:
            left = deadline - waiting.now()
            say(f"{call.service} may not have taken {call.name} ({answer}); trying for {left:.0f} s more")
        waiting.pause(due * waiting.share())
        due = min(due * 2, LONGEST_PAUSE_SECONDS)


def outcome_of(error: Exception) -> Outcome:
    from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError
    from botocore.parsers import ResponseParserError

    if isinstance(error, HTTPClientError | ResponseParserError | IncompleteReadError):
        return Outcome.UNCERTAIN
    if not isinstance(error, ClientError):
        return Outcome.REFUSED  # before it left this machine: no credentials, no connection
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if is_throttled(error.response):
        return Outcome.THROTTLED
    return Outcome.UNCERTAIN if status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED else Outcome.REFUSED


def _look(
    call: SubmitCall, find: Callable[[], str | None], answer: Exception, waiting: Waiting
) -> str | None:
    from botocore.exceptions import BotoCoreError, ClientError

    for look in range(LOOKS):
        if look:
            waiting.pause(LOOK_PAUSE_SECONDS)
        try:
            found = find()
        except (BotoCoreError, ClientError):
            raise _given_up(call, answer, is_uncertain=True) from answer
        if found:
            return found
    return None


def _given_up(call: SubmitCall, error: Exception, is_uncertain: bool) -> SlipwayError:
    if is_uncertain:
        return Unsettled(
            f"it is not known whether {call.service} took job '{call.name}': {error}",
            hint="run the same command again: it looks for the job before it sends anything",
        )
    return NotSubmitted(
        f"{call.service} did not take job '{call.name}' within {DEADLINE_SECONDS:.0f} s: {error}",
        hint="nothing was submitted; run the same command again later",
    )


# Requests checked by botocore's models before they are sent, with no client and no network.


def refuse_malformed(service: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Assert that a request is well-formed: users' mistakes are refused before, so this one is ours."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(dict(parameters), _shape(service, operation))
    assert not report.has_errors(), f"{service} {operation}: {report.generate_report()}"


@lru_cache(maxsize=8)
def _shape(service: str, operation: str) -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = ServiceModel(Loader().load_service_model(service, "service-2"), service)
    return model.operation_model(operation).input_shape
