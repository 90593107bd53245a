"""List the readers of requests to the yard's gateway: signatures, and bodies in each of AWS's protocols."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.gateway import authorization, protocols, signatures, validation
from slipway.yard.permissions.keys import Key

KEY = Key(access_key_id="AKIA0", secret="secret")
DAY = "20261126"
SCOPE = f"AKIA0/{DAY}/us-east-1/%s/aws4_request"
HEADER = f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
PRESIGNED = (
    f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={SCOPE % 's3'}&X-Amz-Date={DAY}T000000Z"
    "&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=0"
)
OLD = "AWSAccessKeyId=AKIA0&Expires=1&Signature=0"


def environment(service: str, body: bytes = b"", **more: str) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "HTTP_HOST": "localhost",
        "HTTP_AUTHORIZATION": HEADER % service,
        "HTTP_X_AMZ_DATE": f"{DAY}T000000Z",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **more,
    }


def signed(**variables: str) -> None:
    found = {**environment("s3"), **variables}
    signature = signatures.read(found)
    with suppress(ApiError):  # each is of another day
        signatures.check(found, signature, KEY, b"")


def by_header(content: bytes) -> None:
    signed(HTTP_AUTHORIZATION=content.decode("latin-1"))


def by_date(content: bytes) -> None:
    signed(HTTP_X_AMZ_DATE="", HTTP_DATE=content.decode("latin-1"))


def by_query(content: bytes) -> None:
    signed(HTTP_AUTHORIZATION="", QUERY_STRING=content.decode("latin-1"))


def call(service: str, body: bytes, **more: str) -> Mapping[str, Any] | None:
    parsed = protocols.parse(environment(service, body, **more))
    validation.check(parsed, {})
    return parsed.parameters


def form(body: bytes) -> object:
    return call("sns", body, CONTENT_TYPE="application/x-www-form-urlencoded")


def json_rpc(body: bytes) -> object:
    target = "AmazonSSM.PutParameter"
    return call("ssm", body, CONTENT_TYPE="application/x-amz-json-1.1", HTTP_X_AMZ_TARGET=target)


def rest_json(body: bytes) -> object:
    return call("batch", body, CONTENT_TYPE="application/json", PATH_INFO="/v1/submitjob")


def keys_to_delete(body: bytes) -> object:
    return authorization._keys_to_delete(environment("s3", body))


FORM = b"Action=CreateTopic&Version=2010-03-31&Name=a&Tags.member.1.Key=k&Tags.member.1.Value=v"
