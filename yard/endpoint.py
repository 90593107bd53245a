"""The yard's address and keys, and clients of its own API and of its services."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import urlsplit

from slipway.jobs.words.errors import SlipwayError

ACCOUNT = "123456789012"  # moto's default account
ACCESS_KEY_ID = "SLIPWAYYARD"  # real ones begin with AKIA or ASIA
HOST = "127.0.0.1"
DEFAULT_PORT = 5566
CONTROL_PATH = "/_yard"  # the yard's own API (controls.py)
CONTROL_SERVICE = "slipway-yard"  # its requests are signed for this service
HEALTH = "/health"
ENDPOINT_VARIABLE = "SLIPWAY_YARD_ENDPOINT"  # in the yard's own process
SECRET_VARIABLE = "SLIPWAY_YARD_SECRET"  # noqa: S105 - in the yard's own process
# Variables that no program started by the yard may see.
HIDDEN_VARIABLES = frozenset({SECRET_VARIABLE, "AWS_SECRET_ACCESS_KEY"})
TIMEOUT_S = 10
# Names the caller in calls from inside the yard: its services are spared from faults; CloudFormation retries.
CALLER_HEADER = "X-Slipway-Yard-Caller"
INSIDE, ENGINE = "inside", "cloudformation"
_caller = ContextVar("caller", default=INSIDE)


class Yard(Protocol):
    """A running yard, as far as its clients need to know it."""

    @property
    def endpoint(self) -> str: ...

    @property
    def secret(self) -> str: ...


def own_endpoint() -> str:
    """Return the address of the running yard, inside it."""
    return os.environ[ENDPOINT_VARIABLE]


def own_client(service: str, region: str) -> Any:
    """Return a client for use inside the running yard, whose server has set both variables."""
    return _client(own_endpoint(), os.environ[SECRET_VARIABLE], service, region)


@lru_cache(maxsize=64)
def _client(endpoint: str, secret: str, service: str, region: str) -> Any:
    """Make a client that names its caller; other code must not share it, and so send that header."""
    from slipway.jobs.cloud.aws import AccessKey, client_at

    client = client_at.__wrapped__(endpoint, service, region, AccessKey(ACCESS_KEY_ID, secret))
    client.meta.events.register("before-call", _name_caller, unique_id=CALLER_HEADER)
    return client


@contextmanager
def calling_as(caller: str) -> Iterator[None]:
    """Let `own_client` name this caller, in this thread, instead of a service of the yard."""
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)


def _name_caller(params: dict[str, Any], **_: object) -> None:
    params["headers"][CALLER_HEADER] = _caller.get()


def refuse_remote(url: str) -> str:
    """Return the URL; raise an error if it leads to another machine, maybe to a real account."""
    from slipway.jobs.cloud.aws import is_loopback

    if not is_loopback(url):
        raise SlipwayError(
            f"'{url}' is not on this machine, where a yard always is; "
            f"allowed are addresses like http://{HOST}:{DEFAULT_PORT}",
            hint='unset AWS_ENDPOINT_URL, or point it at the yard: eval "$(slipway yard env)"',
        )
    return url


def control(yard: Yard, method: str, path: str, body: object = None) -> Any:
    """Call the yard's own API, not an AWS service: `control(yard, "GET", "/status")`."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    sent = "" if body is None else json.dumps(body)
    url = refuse_remote(yard.endpoint) + CONTROL_PATH + path
    request = AWSRequest(method=method, url=url, data=sent)
    SigV4Auth(Credentials(ACCESS_KEY_ID, yard.secret), CONTROL_SERVICE, "local").add_auth(request)
    return _ask(method, url, sent, dict(request.headers))


def is_answering(endpoint: str) -> bool:
    try:
        _ask("GET", refuse_remote(endpoint) + CONTROL_PATH + HEALTH, "", {})
    except SlipwayError:
        return False
    return True


def _ask(method: str, url: str, body: str, headers: Mapping[str, str]) -> Any:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or HOST, address.port, timeout=TIMEOUT_S)
    try:
        connection.request(method, address.path, body or None, dict(headers))
        answer = connection.getresponse()
        said = json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError) as error:
        endpoint = f"{address.scheme}://{address.netloc}"
        raise SlipwayError(
            f"no yard answers at {endpoint} ({error})", hint="start one: slipway yard up"
        ) from error
    finally:
        connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise SlipwayError(said["message"], hint=said.get("hint", ""))
    return said
