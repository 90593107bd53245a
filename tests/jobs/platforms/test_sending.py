"""A request's outcome says if it was not carried out, or may have been."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from slipway.jobs.platforms.sending import Outcome, SubmitCall, Waiting, outcome_of, send_once

URL = "https://batch.us-east-1.amazonaws.com"


def answered(status: int, code: str) -> ClientError:
    response = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "SubmitJob")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (answered(429, "ThrottlingException"), Outcome.THROTTLED),
        (answered(400, "TooManyRequestsException"), Outcome.THROTTLED),
        (answered(429, "SomethingNew"), Outcome.THROTTLED),
        (answered(500, "InternalFailure"), Outcome.UNCERTAIN),
        (answered(503, "ServiceUnavailable"), Outcome.UNCERTAIN),
        (answered(501, "NotImplemented"), Outcome.REFUSED),  # BI-434
        (answered(400, "ClientException"), Outcome.REFUSED),
        (answered(403, "ExpiredTokenException"), Outcome.REFUSED),
        (answered(403, "RequestTimeTooSkewed"), Outcome.REFUSED),
        (ConnectionClosedError(endpoint_url=URL), Outcome.UNCERTAIN),
        (ReadTimeoutError(endpoint_url=URL), Outcome.UNCERTAIN),
        (ResponseParserError("cut short"), Outcome.UNCERTAIN),
        (EndpointConnectionError(endpoint_url=URL), Outcome.REFUSED),
        (ConnectTimeoutError(endpoint_url=URL), Outcome.REFUSED),
        (NoCredentialsError(), Outcome.REFUSED),
    ],
)
def test_only_what_may_have_been_carried_out_is_uncertain(error: Exception, outcome: Outcome) -> None:
    assert outcome_of(error) is outcome


def test_an_answer_without_a_status_is_taken_at_its_code() -> None:
    assert outcome_of(ClientError({}, "SubmitJob")) is Outcome.REFUSED


def test_who_waits_while_nobody_knows_is_told_why_and_for_how_long() -> None:
    answers = iter([answered(503, "ServiceUnavailable"), "job-1"])
    said: list[str] = []

    def send() -> str:
        answer = next(answers)
        if isinstance(answer, str):
            return answer
        raise answer

    call = SubmitCall(name="bert-1", service="AWS Batch", send=send)
    waiting = Waiting(pause=lambda _: None, now=lambda: 0.0, share=lambda: 0.5)
    assert (
        send_once(call, find=lambda: None, refused=pytest.fail, waiting=waiting, say=said.append) == "job-1"
    )
    (line,) = said
    assert line.startswith("AWS Batch may not have taken bert-1 (An error occurred (ServiceUnavailable)")
    assert line.endswith("; trying for 120 s more")
