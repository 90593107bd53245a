"""Finds out which machine this is, from the instance metadata service (IMDSv2: EC2 user guide)."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import cache

from slipway.jobs.words.errors import SlipwayError

# The SDKs' variable, so that it sends them and us to the same place.
_ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
_ENDPOINT = "http://169.254.169.254"
_SECONDS = 5.0
_TOKEN_SECONDS = 300


class NoMetadata(SlipwayError):
    """The machine cannot find out which node it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    id: str
    address: str


@cache
def read_instance() -> Instance:
    """Return which machine this is. Ask once, as only root may ask, and attempts run as another user."""
    token = _ask("PUT", "latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)})
    said = {"X-aws-ec2-metadata-token": token}
    return Instance(
        id=_ask("GET", "latest/meta-data/instance-id", said),
        address=_ask("GET", "latest/meta-data/local-ipv4", said),
    )


def _ask(method: str, path: str, headers: dict[str, str]) -> str:
    url = f"{os.environ.get(_ENDPOINT_VARIABLE, _ENDPOINT).rstrip('/')}/{path}"
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310  # the metadata service
    # The address is the machine's own, so no proxy of the environment may be used.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_SECONDS) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError) as error:
        raise NoMetadata(
            f"the instance metadata service did not answer {method} /{path}: {error}",
            hint="is this an EC2 instance with IMDSv2 enabled?",
        ) from None
