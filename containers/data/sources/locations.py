"""Where text lies, as people write it: s3://bucket/prefix, https://host/file or a local path. Pure.

A URL may carry secrets (user:password@, a signature behind the question mark): `public` is what may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.addresses import refuse_private_host
from slipway.containers.data.sources.sources import check_name

# Some programs read file:/etc/passwd and http:host as addresses, too.
REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(file|ftp|https?|s3):", re.IGNORECASE)
# Amazon S3 user guide, "General purpose bucket naming rules".
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Identify the server that answers a URL."""

    scheme: str
    host: str
    port: int


def is_remote(text: str) -> bool:
    return REMOTE.match(text) is not None


def public(text: str) -> str:
    """Strip user, password, query and fragment; return a local path as it is."""
    if not is_remote(text):
        return text
    scheme, separator, rest = text.partition("://")
    if not separator:
        return re.split(r"[?#]", text, maxsplit=1)[0]
    # A key may hold a question mark.
    place = rest if scheme == "s3" else re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def has_secrets(text: str) -> bool:
    return public(text) != text


def check_address(text: str) -> None:
    """Raise DataError unless the spelling is that of a remote place that inputs.py may open."""
    scheme, separator, _ = text.partition("://")
    if scheme not in CHECKS or not separator:
        begins = f"{scheme}://" if separator else text.partition(":")[0] + ":"
        raise DataError(
            f"{public(text)[:200]!r} begins with {begins}",
            hint=f"give a path, or an address with {', '.join(CHECKS)}",
        )
    CHECKS[scheme](text)


def bucket_and_key(text: str) -> tuple[str, str]:
    """Return bucket and key; the key has no slash at its end, and "" is the whole bucket."""
    bucket, _, key = text.partition("://")[2].partition("/")
    if not BUCKET.fullmatch(bucket):
        raise DataError(
            f"{public(text)[:200]!r} names no bucket",
            hint="write s3://bucket/prefix; a bucket's name is lower-case",
        )
    key = key.rstrip("/")
    if key:
        check_name(key)
    return bucket, key


def split_url(text: str) -> SplitResult:
    """Split an address that may be read: https to a public host, or http here where that is allowed."""
    try:
        parts = urlsplit(text)
        origin = origin_of(parts)
    except ValueError:
        raise DataError(f"{public(text)[:200]!r} is not a URL", hint="write https://host/file") from None
    if not origin.host or not text.isascii() or not text.isprintable() or " " in text:
        raise DataError(
            f"{public(text)[:200]!r} is not a URL", hint="write https://host/file, with %20 for a blank"
        )
    if origin.scheme != "https" and not is_loopback(origin.host):
        raise DataError(
            f"{public(text)} is read without encryption", hint="write https://; http is for this machine only"
        )
    refuse_private_host(origin.host)
    return parts


def origin_of(parts: SplitResult) -> Origin:
    scheme = parts.scheme.lower()
    return Origin(scheme, parts.hostname or "", parts.port or DEFAULT_PORTS.get(scheme, 0))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


CHECKS: Mapping[str, Callable[[str], object]] = {
    "s3": bucket_and_key,
    "https": split_url,
    "http": split_url,
}
