"""Whether an object is there: an answer, or an error that says what to do, and never a guess."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.session import get_session
from botocore.stub import Stubber

from slipway.jobs.cloud.objects import NoAnswer, find_object

WHERE = {"Bucket": "slipway-c6i-data", "Key": "code/x.tar.gz"}


@pytest.fixture
def s3() -> Any:
    return get_session().create_client(
        "s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )


def refused(s3: Any, operation: str, code: str) -> Stubber:
    stub = Stubber(s3)
    stub.add_client_error({"HeadObject": "head_object", "GetObject": "get_object"}[operation], code)
    stub.activate()
    return stub


@pytest.mark.parametrize(("operation", "code"), [("HeadObject", "404"), ("GetObject", "NoSuchKey")])
def test_an_object_that_is_not_there_is_none(s3: Any, operation: str, code: str) -> None:
    refused(s3, operation, code)
    assert find_object(s3, operation, **WHERE) is None


@pytest.mark.parametrize(("operation", "code"), [("HeadObject", "403"), ("GetObject", "AccessDenied")])
def test_who_may_not_look_is_told_which_permission_is_missing(s3: Any, operation: str, code: str) -> None:
    """There is no s3:HeadObject, and the answer to it says no more than 403."""
    refused(s3, operation, code)
    with pytest.raises(NoAnswer) as refusal:
        find_object(s3, operation, **WHERE)
    assert refusal.value.hint == "allow s3:GetObject to your role"
    assert "s3://slipway-c6i-data/code/x.tar.gz" in refusal.value.message


def test_a_store_that_is_out_of_order_is_not_an_absent_object(s3: Any) -> None:
    refused(s3, "HeadObject", "500")
    with pytest.raises(NoAnswer, match="500"):
        find_object(s3, "HeadObject", **WHERE)
