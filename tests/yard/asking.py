"""Sends requests to the yard: those that boto3 is refused, and those that no SDK would send."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from botocore.session import get_session

from slipway.yard.endpoint import ACCESS_KEY_ID, ACCOUNT, control
from tests.yard.conftest import REGION, RunningYard

BY_ACCOUNT = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def refusal(call: Any, **parameters: Any) -> dict[str, Any]:
    """Return code, message and HTTP status of the error in which the call must end."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    response: dict[str, Any] = caught.value.response
    return {**response["Error"], "status": response["ResponseMetadata"]["HTTPStatusCode"]}


def send(
    method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Return status and body of a plain HTTP request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def send_signed(
    yard: RunningYard, service: str, path: str, body: bytes, headers: Mapping[str, str]
) -> tuple[int, str]:
    request = AWSRequest(method="POST", url=yard.endpoint + path, data=body, headers=dict(headers))
    SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), service, REGION).add_auth(request)
    status, answer = send("POST", yard.endpoint + path, body, dict(request.headers))
    return status, answer.decode()


def client_of(yard: RunningYard, service: str, given: Mapping[str, Any]) -> Any:
    """Return a client with temporary credentials in STS's form."""
    return get_session().create_client(
        service,
        region_name=REGION,
        endpoint_url=yard.endpoint,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )


def policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def make_role(
    yard: RunningYard, name: str, principal: Mapping[str, str], *statements: Mapping[str, Any]
) -> str:
    """Make a role that the principal may assume, with one inline policy; return its ARN."""
    iam = yard.client("iam")
    trust = policy({"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"})
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]
    if statements:
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=policy(*statements))
    return str(made["Arn"])


def switch(yard: RunningYard, **values: float) -> None:
    """Switch faults on or off by name, with one seed for all tests."""
    given = {name.replace("_", "-"): value for name, value in values.items()}
    control(yard, "POST", "/switches", {"values": given, "seed": 1})
