"""The yard's own address and keys, and clients to it."""

from __future__ import annotations

import os
from typing import Any

ACCOUNT = "123456789012"  # moto's account
ACCESS_KEY_ID = "SLIPWAYYARD"  # cannot be taken for a real key, which begins with AKIA or ASIA
SECRET_ACCESS_KEY = "not-a-secret"  # noqa: S105 - the yard checks no signatures
HOST = "127.0.0.1"
DEFAULT_PORT = 5566


def own_client(service: str, region: str) -> Any:
    """A client to the running yard, from inside it: SLIPWAY_YARD_ENDPOINT is set before the server starts."""
    from jobs.aws import client_at

    return client_at(os.environ["SLIPWAY_YARD_ENDPOINT"], service, region, ACCESS_KEY_ID, SECRET_ACCESS_KEY)
