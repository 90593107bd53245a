"""Parse, check and open the places of text: s3://bucket/prefix, https://host/file or a local path.

Another scheme is a row of CHECKS, and a row of OPENERS with a module that has `open_source`. A URL may carry
secrets (user:password@, a signature after the question mark): show only what `public` returns.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources.sources import Source, check_name, local_source

# A URL may only lead to public machines, because a job runs next to services that trust every caller: the
# metadata service gives out the machine's keys. SLIPWAY_PRIVATE_HOSTS, in the process that reads, allows more
# hosts, such as a mirror: names and addresses, comma-separated. It never allows link-local addresses, which
# the metadata service has.
VARIABLE = "SLIPWAY_PRIVATE_HOSTS"
HINT = (
    "give a public address, or copy the file into the cluster's bucket: slipway cluster upload; for a "
    f"mirror of your own, name its host in {VARIABLE}"
)

Address = IPv4Address | IPv6Address

# Link-local addresses, and AWS's fd00:ec2::/32 (EC2 user guide, "Instance metadata").
_NEVER = tuple(ip_network(text) for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32"))
# IPv6 networks that embed an IPv4 address, and how many bits follow it: NAT64, IPv4-compatible, 6to4.
_TUNNELS = ((ip_network("64:ff9b::/96"), 0), (ip_network("::/96"), 0), (ip_network("2002::/16"), 80))


def refuse_private_host(host: str) -> None:
    """Refuse a host that is a private address, or a name of this machine."""
    name = host.rstrip(".").lower()
    if (name == "localhost" or name.endswith(".localhost")) and name not in _named_hosts():
        raise _refused(host, "this machine")
    if address := spelled_address(name):
        refuse_private_address(host, address)


def refuse_private_address(host: str, address: Address) -> None:
    """Refuse the private or link-local address of a host."""
    for target in _targets(address):
        if any(target in network for network in _NEVER if network.version == target.version):
            raise DataError(
                f"{host[:200]} is {address}, a link-local address such as the metadata service's",
                hint="give another host; no setting allows this one",
            )
        if (not target.is_global or target.is_multicast) and host.rstrip(".").lower() not in _named_hosts():
            raise _refused(host, str(address))


def spelled_address(host: str) -> Address | None:
    """Return the address if the host is written as one; systems accept 127.1 and 2130706433, too."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def _targets(address: Address) -> tuple[Address, ...]:
    """Return the address itself, and the IPv4 address that it may lead to."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    inner = [
        IPv4Address(int(address) >> bits & 0xFFFFFFFF) for network, bits in _TUNNELS if address in network
    ]
    return (address, *inner)


def _named_hosts() -> frozenset[str]:
    return frozenset(name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def _refused(host: str, what: str) -> DataError:
    return DataError(f"{host[:200]} is {what}, which is not public", hint=HINT)


# Some programs also accept file:/etc/passwd and http:host as addresses.
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
    # A key of S3 may contain a question mark.
    place = rest if scheme == "s3" else re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def has_secrets(text: str) -> bool:
    return public(text) != text


def check_address(text: str) -> None:
    """Raise DataError unless the text is a valid address of a scheme in CHECKS."""
    scheme, separator, _ = text.partition("://")
    if scheme not in CHECKS or not separator:
        begins = f"{scheme}://" if separator else text.partition(":")[0] + ":"
        raise DataError(
            f"{public(text)[:200]!r} begins with {begins}",
            hint=f"give a path, or an address with {', '.join(CHECKS)}",
        )
    CHECKS[scheme](text)


def bucket_and_key(text: str) -> tuple[str, str]:
    """Return bucket and key; the key has no slash at its end, and is "" for the whole bucket."""
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
    """Split a URL; refuse one that is neither https to a public host nor http to this machine."""
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


# The modules are imported on use: local text needs neither of their libraries.
OPENERS: Mapping[str, str] = {
    "s3": "slipway.containers.data.sources.source_s3",
    "https": "slipway.containers.data.sources.source_url",
    "http": "slipway.containers.data.sources.source_url",
}


def open_source(text: str, names: tuple[str, ...] = (), bucket_owner: str | None = None) -> Source:
    """Open local or remote text.

    `names` limits it to these files below the place. `bucket_owner` is the account that must own a bucket.
    """
    if not is_remote(text):
        return local_source(Path(text), names)
    check_address(text)
    scheme = text.partition("://")[0]
    try:
        module = import_module(OPENERS[scheme])
    except ModuleNotFoundError as error:
        raise DataError(
            f"{public(text)[:200]} needs the Python package {error.name}",
            hint="install Slipway's extra 'training'",
        ) from None
    source: Source = module.open_source(text, names, bucket_owner)
    return source
