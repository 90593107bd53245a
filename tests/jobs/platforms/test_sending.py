"""Which ends of a request mean that it was not carried out, which that it may have been."""

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

from slipway.jobs.platforms.sending import Outcome, outcome_of

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
