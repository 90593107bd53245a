"""The yard accepts only requests and presigned URLs that its own secret signed, unchanged and recently."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.session import get_session

from slipway.jobs.words.errors import SlipwayError
from slipway.yard.endpoint import ACCESS_KEY_ID, CONTROL_SERVICE, control
from tests.yard.asking import BY_ACCOUNT, EVERYTHING, client_of, make_role, refusal, send
from tests.yard.conftest import REGION, RunningYard

# A presigned URL of S3 allows one object and one method until it expires, and no other service.


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
    upload = presigned("put_object", Params={"Bucket": "presigned", "Key": "k"})
    assert send("PUT", upload, b"more")[0] == 200
    assert s3.get_object(Bucket="presigned", Key="k")["Body"].read() == b"more"
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


def test_credentials_in_the_query_are_for_s3_alone_and_of_the_yard_s_own_secret(yard: RunningYard) -> None:
    request = AWSRequest(method="POST", url=f"{yard.endpoint}/?{WHO.decode()}")
    SigV4QueryAuth(Credentials(ACCESS_KEY_ID, yard.secret), "sts", REGION).add_auth(request)
    status, said = send("POST", request.url)
    assert (status, json.loads(said)["__type"]) == (403, "MissingAuthenticationToken")
    yard.client("s3").create_bucket(Bucket="presigned")
    request = AWSRequest(method="GET", url=f"{yard.endpoint}/presigned")
    S3SigV4QueryAuth(Credentials(ACCESS_KEY_ID, "x"), "s3", REGION).add_auth(request)
    status, said = send("GET", request.url)
    assert (status, b"SignatureDoesNotMatch" in said) == (403, True)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WHO = b"Action=GetCallerIdentity&Version=2011-06-15"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Describe the yard as another user would know it."""

    endpoint: str
    secret: str


def signed(
    yard: RunningYard, service: str = "sts", body: bytes = WHO, headers: Mapping[str, str] = FORM
) -> dict[str, str]:
    request = AWSRequest(method="POST", url=f"{yard.endpoint}/", data=body, headers=dict(headers))
    SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), service, REGION).add_auth(request)
    return dict(request.headers)


def put(yard: RunningYard, key: str, body: bytes) -> dict[str, str]:
    """Return the headers of an upload into the bucket `uploads`."""
    yard.client("s3").create_bucket(Bucket="uploads")
    request = AWSRequest(method="PUT", url=f"{yard.endpoint}/uploads/{key}", data=body)
    S3SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), "s3", REGION).add_auth(request)
    return dict(request.headers)


def test_every_yard_has_a_secret_of_its_own_that_only_its_user_can_read(yard: RunningYard) -> None:
    assert len(yard.secret) == 40
    assert (yard.home.stat().st_mode & 0o777) == 0o700
    for name in ("state.json", "server.log", "lock"):
        assert ((yard.home / name).stat().st_mode & 0o777) == 0o600, name
    assert (yard.home / "server.log").read_text().count(yard.secret) == 0


def test_a_second_user_of_the_machine_is_refused(yard: RunningYard) -> None:
    """Simulate a user who can reach the port but cannot read the secret."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user here")
    read = f"open({str(yard.home / 'state.json')!r}).read()"
    script = f"import os; os.setgroups([]); os.setgid(65534); os.setuid(65534); {read}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr


@pytest.mark.parametrize(
    ("path", "method"), [("/reset", "POST"), ("/status", "GET"), ("/faults", "DELETE"), ("/hosts", "GET")]
)
def test_a_control_call_without_a_signature_is_refused(yard: RunningYard, path: str, method: str) -> None:
    status, said = send(method, f"{yard.endpoint}/_yard{path}")
    assert (status, "signed" in json.loads(said)["message"]) == (403, True)


def test_no_other_secret_no_signature_for_aws_and_no_key_that_the_yard_gave_out_order_a_control(
    yard: RunningYard,
) -> None:
    yard.client("s3").create_bucket(Bucket="kept")
    with pytest.raises(SlipwayError, match="does not match the signature you provided"):
        control(Elsewhere(endpoint=yard.endpoint, secret="x" * 40), "POST", "/reset")
    role = make_role(yard, "any", BY_ACCOUNT, EVERYTHING)
    given = yard.client("sts").assume_role(RoleArn=role, RoleSessionName="anybody")["Credentials"]
    given_out = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    own = Credentials(ACCESS_KEY_ID, yard.secret)
    for key, service, why in ((own, "batch", ""), (given_out, CONTROL_SERVICE, "own key")):
        request = AWSRequest(method="POST", url=f"{yard.endpoint}/_yard/reset", data=b"")
        SigV4Auth(key, service, REGION).add_auth(request)
        status, said = send("POST", f"{yard.endpoint}/_yard/reset", headers=dict(request.headers))
        assert (status, why in said.decode()) == (403, True)
    assert len(yard.client("s3").list_buckets()["Buckets"]) == 1


def test_a_request_that_was_signed_is_answered_and_a_changed_one_is_not(yard: RunningYard) -> None:
    headers = signed(yard)
    assert send("POST", f"{yard.endpoint}/", WHO, headers)[0] == 200
    changed = [
        (f"{yard.endpoint}/", WHO.replace(b"GetCallerIdentity", b"GetSessionToken"), headers),
        (f"{yard.endpoint}/?Action=GetSessionToken", WHO, headers),
        (f"{yard.endpoint}/", WHO, {**headers, "X-Amz-Date": "20200101T000000Z"}),
        (f"{yard.endpoint}/", WHO, {**headers, "X-Amz-Target": "Other.Thing"}),
        (f"{yard.endpoint}/", WHO, {**headers, "Host": "localhost"}),
        (f"{yard.endpoint}/", WHO, {name: headers[name] for name in headers if name != "X-Amz-Date"}),
    ]
    for url, body, given in changed:
        assert send("POST", url, body, given)[0] == 403, (url, body, given)


def test_an_upload_whose_body_was_changed_is_refused_and_not_kept(yard: RunningYard) -> None:
    headers = put(yard, "k", b"the real content")
    url = f"{yard.endpoint}/uploads/k"
    for body in (b"another content!", b"", b"the real content, and more"):
        status, said = send("PUT", url, body, headers)
        assert (status, b"XAmzContentSHA256Mismatch" in said) == (400, True), body
        assert refusal(yard.client("s3").head_object, Bucket="uploads", Key="k")["status"] == 404
    assert send("PUT", url, b"the real content", headers)[0] == 200
    assert yard.client("s3").get_object(Bucket="uploads", Key="k")["Body"].read() == b"the real content"


@pytest.mark.parametrize("key", ["a b/ü+%2F/..x", "a=b:c@d!$&'()*,;~", "//two", "x?y#z", "日本"])
def test_objects_of_any_name_and_metadata_come_back_as_they_were(yard: RunningYard, key: str) -> None:
    s3, body = yard.client("s3"), b"x" * 200_000
    s3.create_bucket(Bucket="names")
    s3.put_object(Bucket="names", Key=key, Body=body, Metadata={"with_underscore": "1"})
    got = s3.get_object(Bucket="names", Key=key)
    assert (got["Body"].read(), got["Metadata"]) == (body, {"with_underscore": "1"})
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket="names")["Contents"]] == [key]
    assert refusal(s3.head_object, Bucket="names", Key="other")["status"] == 404
    assert s3.list_objects_v2(Bucket="names", Prefix=key, Delimiter="+ /")["KeyCount"] == 1
    s3.delete_objects(Bucket="names", Delete={"Objects": [{"Key": key}]})
    assert s3.list_objects_v2(Bucket="names")["KeyCount"] == 0


def test_the_session_token_must_be_the_one_that_came_with_the_key(yard: RunningYard) -> None:
    sts = yard.client("sts")
    role = make_role(yard, "any", BY_ACCOUNT, EVERYTHING)
    first, second = (
        sts.assume_role(RoleArn=role, RoleSessionName=name)["Credentials"] for name in ("first", "second")
    )
    assert len({first["SecretAccessKey"], second["SecretAccessKey"], yard.secret}) == 3
    swapped = {**first, "SessionToken": second["SessionToken"]}
    s3 = ("InvalidToken", 400, "The provided token is malformed or otherwise invalid.")
    other = "The security token included in the request is invalid."
    for service, operation, said in (
        ("s3", "list_buckets", s3),
        ("sts", "get_caller_identity", ("InvalidClientTokenId", 403, other)),
        ("ssm", "list_commands", ("UnrecognizedClientException", 400, other)),
    ):
        ok = client_of(yard, service, first)
        assert getattr(ok, operation)()
        for given in (swapped, {**first, "SessionToken": None}):
            bad = client_of(yard, service, given)
            refused = refusal(getattr(bad, operation))
            assert (refused["Code"], refused["status"], refused["Message"]) == said


@pytest.mark.parametrize("operation", ["get_session_token", "get_federation_token", "assume_role"])
def test_every_temporary_key_has_a_secret_of_its_own(yard: RunningYard, operation: str) -> None:
    given = {
        "assume_role": {
            "RoleArn": make_role(yard, "any", BY_ACCOUNT, EVERYTHING),
            "RoleSessionName": "anybody",
        },
        "get_federation_token": {"Name": "anybody"},
    }.get(operation, {})
    ask = getattr(yard.client("sts"), operation)
    first, second = (ask(**given)["Credentials"] for _ in range(2))
    for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"):
        assert first[name] != second[name]
        assert "EXAMPLE" not in first[name]
    for one in (first, second):
        assert client_of(yard, "sts", one).get_caller_identity()["Account"]


TOO_LARGE = "The difference between the request time and the current time is too large."
STALE = (
    r"Signature (expired: \w+Z is now earlier than \w+Z \(\w+Z -|"
    r"not yet current: \w+Z is still later than \w+Z \(\w+Z \+) 15 min\.\)"
)


@pytest.mark.parametrize(
    ("service", "operation", "code", "words"),
    [
        ("s3", "list_buckets", "RequestTimeTooSkewed", TOO_LARGE),
        ("sts", "get_caller_identity", "SignatureDoesNotMatch", STALE),
        ("batch", "describe_job_queues", "InvalidSignatureException", STALE),
    ],
)
@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_wrong_is_said_so(
    yard: RunningYard,
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    service: str,
    operation: str,
    code: str,
    words: str,
) -> None:
    wrong = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: wrong)
    refused = refusal(getattr(yard.client(service), operation))
    assert (refused["Code"], refused["status"]) == (code, 403)
    assert re.fullmatch(words, refused["Message"])
    assert ("expired" in refused["Message"]) == (minutes < 0 and service != "s3")


def chunked_upload(yard: RunningYard, declared: str, body: bytes, size: int) -> tuple[int, bytes]:
    """Send a stream as SDKs do, whose checksum comes after it."""
    yard.client("s3").create_bucket(Bucket="uploads")
    url = f"{yard.endpoint}/uploads/k"
    headers = {
        "X-Amz-Content-SHA256": declared,
        "X-Amz-Decoded-Content-Length": str(size),
        "Content-Encoding": "aws-chunked",
    }
    request = AWSRequest(method="PUT", url=url, headers=headers)
    signer = S3SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), "s3", REGION)
    signer.payload = lambda _request: declared
    signer.add_auth(request)
    return send("PUT", url, body, dict(request.headers))


@pytest.mark.parametrize(
    ("declared", "body"),
    [
        ("UNSIGNED-PAYLOAD", b"content"),
        ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", b"7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:Rh7y5w==\r\n\r\n"),
        (
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            b"7;chunk-signature=%b\r\ncontent\r\n0;chunk-signature=%b\r\n\r\n" % (b"a" * 64, b"b" * 64),
        ),
    ],
)
def test_uploads_that_say_that_their_body_is_not_signed_are_taken(
    yard: RunningYard, declared: str, body: bytes
) -> None:
    status, said = chunked_upload(yard, declared, body, 7)
    assert status == 200, said
    assert yard.client("s3").get_object(Bucket="uploads", Key="k")["Body"].read() == b"content"
    status, said = chunked_upload(yard, "WHATEVER", b"content", 7)
    assert (status, b"InvalidArgument" in said) == (400, True), "a word that S3 does not know"
