"""The yard's own address and keys, and clients to it."""

from __future__ import annotations

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

from jobs.core.errors import SlipwayError

ACCOUNT = "123456789012"  # moto's account
ACCESS_KEY_ID = "SLIPWAYYARD"  # cannot be taken for a real key, which begins with AKIA or ASIA
SECRET_ACCESS_KEY = "not-a-secret"  # noqa: S105 - the yard checks no signatures
HOST = "127.0.0.1"
DEFAULT_PORT = 5566
CONTROL_PATH = "/_yard"  # what is not AWS: health, faults, reset
TIMEOUT_S = 10


def own_client(service: str, region: str) -> Any:
    """A client to the running yard, from inside it: SLIPWAY_YARD_ENDPOINT is set before the server starts."""
    from jobs.aws import client_at

    return client_at(os.environ["SLIPWAY_YARD_ENDPOINT"], service, region, ACCESS_KEY_ID, SECRET_ACCESS_KEY)


def refuse_remote(url: str) -> str:
    """A command of the yard that reached another machine would change somebody's account."""
    from jobs.aws import is_loopback

    if not is_loopback(url):
        raise SlipwayError(
            f"'{url}' is not on this machine, and a yard is never anywhere else; "
            f"allowed are addresses like http://{HOST}:{DEFAULT_PORT}",
            hint='unset AWS_ENDPOINT_URL, or point it at the yard: eval "$(slipway yard env)"',
        )
    return url


def control(endpoint: str, method: str, path: str, body: object = None) -> Any:
    """Ask the yard itself, not one of its services: `control(endpoint, "GET", "/health")`."""
    address = urlsplit(refuse_remote(endpoint))
    connection = http.client.HTTPConnection(address.hostname or HOST, address.port, timeout=TIMEOUT_S)
    try:
        connection.request(method, CONTROL_PATH + path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        said = json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SlipwayError(f"no yard answers at {endpoint} ({error})", hint="slipway yard up") from error
    finally:
        connection.close()
    if answer.status >= http.client.BAD_REQUEST:
        raise SlipwayError(said["message"], hint=said.get("hint", ""))
    return said


def is_answering(endpoint: str) -> bool:
    try:
        control(endpoint, "GET", "/health")
    except SlipwayError:
        return False
    return True
