"""Refuse what a web page could send: the yard listens where every browser of this machine can reach it.

A page may send forms to any address, and its owner's name may lead to 127.0.0.1 (DNS rebinding). Both show in
headers that a page cannot choose.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from slipway.yard.endpoint import HOST
from slipway.yard.errors import ApiError

LOOPBACK_NAMES = frozenset({HOST, "localhost", "::1"})
BUCKET_HOSTS = ".localhost"  # bucket.localhost: browsers never ask a DNS for such names (RFC 6761)
OWN_PAGES = frozenset({"same-origin", "none"})  # "none": somebody typed the address


def check(environ: dict[str, Any]) -> None:
    """Raise ApiError unless the request is addressed to this machine and no other site's page sent it."""
    host = environ.get("HTTP_HOST", "")
    if not _is_loopback(host):
        raise _refusal(f"it is not called '{host}'; call it by its address, http://{HOST}")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin != f"http://{host}":
        raise _refusal(f"it takes no orders from a web page, and this one is of '{origin}'")
    site = environ.get("HTTP_SEC_FETCH_SITE", "none")
    if site not in OWN_PAGES:
        raise _refusal(f"it takes no orders from a web page, and this one is '{site}'")


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in LOOPBACK_NAMES or name.endswith(BUCKET_HOSTS)


def _refusal(reason: str) -> ApiError:
    return ApiError("AccessDenied", f"the yard refuses this request: {reason}", status=403)
