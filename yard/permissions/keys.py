"""The access keys that the yard accepts: its own, and those that it issued, each with its own secret.

STS issues them (the CDK assumes roles), the metadata service of a host, and Batch for its jobs.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slipway.yard.endpoint import ACCESS_KEY_ID, ACCOUNT, ENDPOINT_VARIABLE, SECRET_VARIABLE
from slipway.yard.errors import ApiError

# A role's session: who signs with an issued key, and from where.


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSession:
    role_arn: str
    role_id: str
    name: str  # an instance's or a task's id, or AssumeRole's RoleSessionName
    vpc: str = ""  # where its requests come from, if known: its endpoints' policies then apply
    address: str = ""
    instance_arn: str = ""  # the EC2 instance, if the role comes from its instance profile

    @property
    def role(self) -> str:
        return self.role_arn.rpartition("/")[2]

    @property
    def arn(self) -> str:
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role}/{self.name}"

    @property
    def user_id(self) -> str:
        return f"{self.role_id}:{self.name}"


_SECRET_BYTES = 30  # 40 characters, as AWS's are
_TOKEN_BYTES = 96
_INSIDE_LASTS_S = 24 * 60 * 60
ATTEMPTS = 6  # for each call that an AWS service makes
_MOTOS_EXAMPLE = b"AKIAIOSFODNN7EXAMPLE"  # moto issues it for every session
_ID, _SECRET, _TOKEN, _END = (
    re.compile(rb"(?<=<%b>)[^<]+(?=</%b>)" % (name, name))
    for name in (b"AccessKeyId", b"SecretAccessKey", b"SessionToken", b"Expiration")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    access_key_id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)  # empty for the yard's own key
    expires_at: float | None = None  # seconds since the epoch
    session: RoleSession | None = None  # its role's policies apply; None: all is allowed


_issued: dict[str, Key] = {}


def new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def find(access_key_id: str) -> Key:
    """Return the key; refuse foreign ones, so that a deployment to an account cannot end up in the yard."""
    if access_key_id == ACCESS_KEY_ID:
        return Key(access_key_id=ACCESS_KEY_ID, secret=os.environ[SECRET_VARIABLE])
    if found := _issued.get(access_key_id):
        return found
    raise ApiError(
        "InvalidClientTokenId",
        "this is the yard, not AWS: it takes only its own key; "
        'run eval "$(slipway yard env)", or unset AWS_ENDPOINT_URL to reach AWS',
        status=403,
    )


def issue(
    access_key_id: str = "", *, lasts_s: float | None = None, session: RoleSession | None = None
) -> Key:
    """Issue a temporary key; without a duration it is valid until the yard is reset."""
    key = Key(
        access_key_id=access_key_id or f"ASIA{secrets.token_hex(8).upper()}",
        secret=new_secret(),
        token=secrets.token_urlsafe(_TOKEN_BYTES),
        expires_at=None if lasts_s is None else time.time() + lasts_s,
        session=session,
    )
    _issued[key.access_key_id] = key
    return key


def container_variables(session: RoleSession | None) -> dict[str, str]:
    """Return what leads programs of a container to the yard, with a new key of the session."""
    found = {"AWS_ENDPOINT_URL": os.environ[ENDPOINT_VARIABLE], "AWS_EC2_METADATA_DISABLED": "true"}
    if session is None:
        return found
    key = issue(session=session)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return {**found, **dict(zip(names, (key.access_key_id, key.secret, key.token), strict=True))}


def client(session: RoleSession, service: str, region: str) -> Any:
    """Make a client for what an AWS service does with a role; its calls are judged like any others.

    It retries failed calls, as AWS's own services do.
    """
    from slipway.jobs.cloud.aws import AccessKey, client_at

    key, url = issue(session=session, lasts_s=_INSIDE_LASTS_S), os.environ[ENDPOINT_VARIABLE]
    own = AccessKey(key.access_key_id, key.secret, key.token)
    return client_at(url, service, region, own, attempts=ATTEMPTS)


def reissued(answer_of_sts: bytes, session: RoleSession | None) -> bytes:
    """Return the answer with a key issued here: moto's secrets are guessable, some the same for everybody."""
    found = _ID.search(answer_of_sts)
    if not found:
        return answer_of_sts
    lasts_s = None
    if end := _END.search(answer_of_sts):
        moment = datetime.fromisoformat(end[0].decode().replace("Z", "+00:00"))
        lasts_s = moment.timestamp() - time.time()
    key = issue(
        "" if found[0] == _MOTOS_EXAMPLE else found[0].decode(),
        lasts_s=lasts_s,
        session=session,
    )
    for pattern, value in ((_ID, key.access_key_id), (_SECRET, key.secret), (_TOKEN, key.token)):
        answer_of_sts = pattern.sub(value.encode(), answer_of_sts)
    return answer_of_sts


def reset() -> None:
    _issued.clear()
