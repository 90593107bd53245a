"""Which access keys the yard takes: its own, and those that its own STS gave out (the CDK assumes roles)."""

from __future__ import annotations

import re

from jobs.yard.endpoint import ACCESS_KEY_ID
from jobs.yard.errors import ApiError

_ISSUED = re.compile(rb"<AccessKeyId>([^<]+)</AccessKeyId>")

_issued: set[str] = set()


def check(access_key_id: str) -> None:
    """A deploy that was meant for an account must not end in the yard and look done."""
    if access_key_id == ACCESS_KEY_ID or access_key_id in _issued:
        return
    raise ApiError(
        "InvalidClientTokenId",
        "this is the yard, not AWS: it takes only its own key; "
        'run eval "$(slipway yard env)", or unset AWS_ENDPOINT_URL to reach AWS',
        status=403,
    )


def remember(answer_of_sts: bytes) -> None:
    _issued.update(found.decode() for found in _ISSUED.findall(answer_of_sts))


def issue(access_key_id: str) -> None:
    """Given out by another door than STS: a host's metadata service."""
    _issued.add(access_key_id)


def reset() -> None:
    _issued.clear()
