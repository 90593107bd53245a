"""Read text from a URL: one file, in stretches; each must be of the version that was found first.

A URL may carry secrets: only its public part is shown, and no message of urllib3, which holds the whole URL.
obstore's store for HTTP is not used: it follows redirects to any host and drops the query.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from socket import socket
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, MaxRetryError, SSLError

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.locations import (
    Origin,
    origin_of,
    public,
    refuse_private_address,
    split_url,
)
from slipway.containers.data.sources.sources import FetchSource, SourceFile

READS_AT_ONCE = 4
MOST_REDIRECTS = 5
TRIES = 3  # for a body that breaks off; the library retries earlier failures
RETRIES = urllib3.Retry(
    total=5,
    redirect=False,
    status_forcelist=(429, 500, 502, 503, 504),
    backoff_factor=0.5,
    retry_after_max=60,
    raise_on_status=False,
)
TIMEOUT = urllib3.Timeout(connect=10, read=60)
CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
REPEAT = "run the same command again when nothing writes to it"
COPY = "download it, and give the file"
# The meaning of a status, and what to do.
STATUSES: Mapping[int, tuple[str, str]] = {
    200: ("the server does not answer Range requests", COPY),
    401: ("the server wants a login", "write https://user:password@host/file, or download it"),
    403: ("reading it is denied", "a signed URL may have expired: get a new one"),
    404: ("there is no such file", "look at the address"),
    410: ("there is no such file any more", "look at the address"),
    412: ("it changed since the run began", REPEAT),
    416: ("it is empty, or became shorter since the run began", REPEAT),
}


@dataclass(frozen=True, slots=True)
class Address:
    """Hold a URL in the parts that are sent; only `shown` may be printed."""

    shown: str
    origin: Origin
    path: str = field(repr=False)  # with its query
    login: str | None = field(repr=False, default=None)

    def headers(self) -> dict[str, str]:
        # Compressed content would have other lengths.
        plain = {"Accept-Encoding": "identity"}
        return plain | (urllib3.make_headers(basic_auth=self.login) if self.login else {})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """Hold one answer of a server."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class UrlFetch:
    """Get a range of bytes of a URL. Picklable; each process opens its own connections."""

    address: Address

    def __call__(self, file: SourceFile, start: int, stop: int) -> bytes:
        found = get(self.address, start, stop, condition_of(file.etag))
        if found.status != 206:
            raise refused(self.address, found.status)
        place = CONTENT_RANGE.fullmatch(found.headers.get("Content-Range", ""))
        is_asked = place and tuple(map(int, place.groups())) == (start, stop - 1, file.size_bytes)
        if not is_asked or version_of(found.headers) != file.etag:
            raise refused(self.address, 412)
        return found.content


def open_source(text: str, names: tuple[str, ...] = (), _bucket_owner: str | None = None) -> FetchSource:
    if names:
        raise DataError(
            f"--only {names[0]!r} names a file below {public(text)}, and a URL is one file",
            hint="give the URL of the file itself",
        )
    address, found = find(address_of(text))
    place = CONTENT_RANGE.fullmatch(found.headers.get("Content-Range", ""))
    version = version_of(found.headers)
    if place is None or found.headers.get("Content-Encoding", "identity") != "identity":
        raise DataError(f"{address.shown}: the server does not tell its size in bytes", hint=COPY)
    if not version:
        raise DataError(
            f"{address.shown} has neither ETag nor Last-Modified, so a change would go unnoticed", hint=COPY
        )
    name = unquote(address.shown.rpartition("/")[2]) or "text"
    file = SourceFile(name, int(place[3]), version)
    return FetchSource((file,), UrlFetch(address), address.shown, READS_AT_ONCE)


def address_of(text: str) -> Address:
    parts = split_url(text)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return Address(public(text), origin_of(parts), path, login)


def find(address: Address) -> tuple[Address, HttpReply]:
    """Follow redirects within the host and read one byte, as signed URLs allow GET but not HEAD."""
    for _ in range(MOST_REDIRECTS):
        found = get(address, 0, 1, {})
        if found.status == 206:
            return address, found
        target = found.headers.get("Location")
        if not 300 <= found.status < 400 or not target:
            raise refused(address, found.status)
        address = redirected(address, target)
    raise DataError(f"{address.shown} redirects too often", hint="give the address of the file itself")


def redirected(address: Address, target: str) -> Address:
    base = f"{address.origin.scheme}://{urlsplit(address.shown).netloc}{address.path}"
    url = urljoin(base, target)
    if origin_of(split_url(url)) != address.origin:
        raise DataError(
            f"{address.shown} redirects to another host, {public(url)[:200]}",
            hint="give that address itself if you trust it",
        )
    found = address_of(url)
    return Address(found.shown, found.origin, found.path, address.login)


def get(address: Address, start: int, stop: int, condition: Mapping[str, str]) -> HttpReply:
    headers = {**address.headers(), **condition, "Range": f"bytes={start}-{stop - 1}"}
    for tried in range(1, TRIES + 1):
        try:
            return request(address, headers, stop - start)
        except SSLError:
            raise unreachable(address, "its certificate is not trusted") from None
        except MaxRetryError as error:
            is_tls = isinstance(error.reason, SSLError)
            what = "its certificate is not trusted" if is_tls else "it cannot be reached"
            raise unreachable(address, what) from None
        except (HTTPError, OSError):
            if tried == TRIES:
                raise unreachable(address, "the answer breaks off") from None
    raise AssertionError("unreachable: the last try returns or raises")


def request(address: Address, headers: Mapping[str, str], length: int) -> HttpReply:
    """Send one request; read at most `length` bytes, whatever the server sends."""
    answer = connections(address.origin, os.getpid()).request(
        "GET", address.path, headers=dict(headers), preload_content=False, redirect=False
    )
    try:
        content = answer.read(length) if answer.status == 206 else b""
        return HttpReply(answer.status, answer.headers, content)
    finally:
        if answer.status != 206 or answer.length_remaining:
            answer.close()  # otherwise the unread rest of the body would be taken for the next answer
        answer.release_conn()


@cache
def connections(origin: Origin, _process: int) -> urllib3.HTTPConnectionPool:
    """Return the connections of this process: two processes must not share one."""
    proxy = getproxies().get("https") if origin.scheme == "https" else None  # http only goes to this machine
    settings = {"retries": RETRIES, "timeout": TIMEOUT, "maxsize": READS_AT_ONCE, "block": True}
    if proxy and not proxy_bypass(origin.host):
        pools: urllib3.PoolManager = urllib3.ProxyManager(proxy, **settings)  # type: ignore[arg-type]  # by name
    else:
        pools = urllib3.PoolManager(**settings)  # type: ignore[arg-type]  # likewise
    pool = pools.connection_from_host(origin.host, origin.port, origin.scheme)
    if not isinstance(pools, urllib3.ProxyManager):
        # A name may resolve to another address each time, so the address that answers is checked. A proxy
        # decides that for its own connections.
        pool.ConnectionCls = CONNECTIONS[origin.scheme]
    return pool


class PublicHTTPConnection(HTTPConnection):
    def _new_conn(self) -> socket:
        return of_public_peer(self.host, super()._new_conn())


class PublicHTTPSConnection(HTTPSConnection):
    def _new_conn(self) -> socket:
        return of_public_peer(self.host, super()._new_conn())


CONNECTIONS: Mapping[str, type[HTTPConnection]] = {
    "http": PublicHTTPConnection,
    "https": PublicHTTPSConnection,
}


def of_public_peer(host: str, connection: socket) -> socket:
    """Return the connection if its peer is public; otherwise close it before anything is sent."""
    try:
        refuse_private_address(host, ip_address(connection.getpeername()[0].partition("%")[0]))
    except BaseException:
        connection.close()
        raise
    return connection


def version_of(headers: Mapping[str, str]) -> str:
    return headers.get("ETag") or headers.get("Last-Modified") or ""


def condition_of(version: str) -> dict[str, str]:
    """Return the header that makes a read conditional.

    A weak ETag never matches (RFC 9110, 13.1.1), so it gives none: callers compare the ETag of the answer.
    """
    if version.startswith('"'):
        return {"If-Match": version}
    return {} if version.startswith("W/") else {"If-Unmodified-Since": version}


def refused(address: Address, status: int) -> DataError:
    what, hint = STATUSES.get(status, (f"the server answers {status}", COPY))
    return DataError(f"{address.shown}: {what}", hint=hint)


def unreachable(address: Address, what: str) -> DataError:
    return DataError(
        f"{address.shown}: {what}",
        hint="check the address and the network; nodes of a cluster with egress=endpoints reach only S3",
    )
