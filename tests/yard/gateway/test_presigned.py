"""Presigned URLs of S3: one object, one method, until they expire, and no other service."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.auth import S3SigV4QueryAuth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import get_session

from slipway.yard.endpoint import ACCESS_KEY_ID
from tests.yard.asking import send
from tests.yard.conftest import REGION, RunningYard

WHO = b"Action=GetCallerIdentity&Version=2011-06-15"


@pytest.mark.parametrize("how", ["s3", "s3v4"])
def test_a_presigned_url_opens_one_object_until_it_expires(
    yard: RunningYard, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, presigned = yard.client("s3"), presigner(yard, how).generate_presigned_url
    s3.create_bucket(Bucket="presigned")
    s3.put_object(Bucket="presigned", Key="a b", Body=b"content")
    given = {"Bucket": "presigned", "Key": "a b", "ResponseContentType": "text/x y"}
    url = presigned("get_object", Params=given)
    assert send("GET", url) == (200, b"content")
    for changed in (url.replace("a%20b", "a"), url.replace("text/x", "y"), url.replace("text%2Fx", "y")):
        assert changed == url or send("GET", changed)[0] == 403
    assert send("PUT", url, b"other")[0] == 403
    assert send("DELETE", url)[0] == 403
    for expired in (-1, -3600):
        with monkeypatch.context() as patch:
            moved = datetime.now(UTC) + timedelta(seconds=expired - 10)
            patch.setattr("botocore.auth.get_current_datetime", lambda moved=moved: moved)
            patch.setattr("botocore.auth.time.time", lambda expired=expired: TIME() + expired - 10)
            old = presigned("get_object", Params=given, ExpiresIn=10)
        status, said = send("GET", old)
        assert (status, b"AccessDenied" in said, b"has expired" in said) == (403, True, True)


TIME = time.time


def presigner(yard: RunningYard, how: str) -> Any:
    config = Config(signature_version=how, s3={"addressing_style": "path"})
    key = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": yard.secret}
    return get_session().create_client(
        "s3", region_name=REGION, endpoint_url=yard.endpoint, config=config, **key
    )


@pytest.mark.parametrize("how", ["s3", "s3v4"])
def test_a_presigned_upload_is_taken(yard: RunningYard, how: str) -> None:
    s3, presigned = yard.client("s3"), presigner(yard, how).generate_presigned_url
    s3.create_bucket(Bucket="presigned")
    url = presigned("put_object", Params={"Bucket": "presigned", "Key": "k"})
    assert send("PUT", url, b"content")[0] == 200
    assert s3.get_object(Bucket="presigned", Key="k")["Body"].read() == b"content"


def test_a_presigned_url_of_another_secret_is_refused(yard: RunningYard) -> None:
    yard.client("s3").create_bucket(Bucket="presigned")
    request = AWSRequest(method="GET", url=f"{yard.endpoint}/presigned")
    S3SigV4QueryAuth(Credentials(ACCESS_KEY_ID, "x"), "s3", REGION).add_auth(request)
    status, said = send("GET", request.url)
    assert (status, b"SignatureDoesNotMatch" in said) == (403, True)


def test_credentials_in_the_query_are_for_s3_alone(yard: RunningYard) -> None:
    request = AWSRequest(method="POST", url=f"{yard.endpoint}/?{WHO.decode()}")
    SigV4QueryAuth(Credentials(ACCESS_KEY_ID, yard.secret), "sts", REGION).add_auth(request)
    status, said = send("POST", request.url)
    assert (status, json.loads(said)["__type"]) == (403, "MissingAuthenticationToken")
