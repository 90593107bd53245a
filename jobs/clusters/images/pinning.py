"""Writes the parent's Ubuntu release, fitting packages and checksums of files into images' locks."""

from __future__ import annotations

import gzip
import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial

from slipway.infra.declare.machine_images import MachineImage
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.ami_locks import TO_BE_FILLED, can_be_pinned, kernel_numbers

_MOMENT = "%Y%m%dT%H0000Z"
_RELEASE = re.compile(r"/server/([0-9]{2}\.[0-9]{2}|[a-z]+)/")
# Suite by the version in Canonical's parameters. Another release of Ubuntu is a line here.
SUITES = {"22.04": "jammy", "24.04": "noble"}
_TABLE = re.compile(r"(?m)^\[(?P<name>[^]]+)\]\n(?P<lines>(?:(?!\[).*\n)*)")


class CannotPin(SlipwayError):
    """The parent has no release that could be pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    serial: str
    kernel: str  # of the parent, according to the archive of its day
    snapshot: str
    newest_kernel: str  # among the packages of the snapshot


def suite_of(parent: str) -> str:
    found = _RELEASE.search(parent) if can_be_pinned(parent) else None
    if found is None:
        raise CannotPin(
            f"the parent is {parent}, which names no newest release of Canonical's",
            hint="an AMI id stays as it is; a parameter to pin has /stable/current/ in it",
        )
    suite = SUITES.get(found[1])
    if suite is None:
        raise CannotPin(
            f"the parent is of Ubuntu {found[1]}, whose archive is not known; known are {', '.join(SUITES)}",
            hint="add it to SUITES in jobs/clusters/images/pinning.py",
        )
    return suite


def find_pins(
    images: Sequence[MachineImage],
    newest: Callable[[str, str], str],
    kernels: Callable[[str, str], Kernels],
    now: datetime,
) -> Mapping[str, Pin]:
    """Find the pin of each image, with one snapshot for all; raise if one of them has none.

    `newest` returns the serial of a parent in a region, `kernels` what a suite's archive had at a moment.
    """
    ask = cache(kernels)  # asks once for releases of the same day
    suites = {image.name: suite_of(image.parent) for image in images}
    serials = {image.name: newest(image.parent, image.region) for image in images}
    return {name: find_pin(serials[name], partial(ask, suite), now) for name, suite in suites.items()}


def find_pin(serial: str, kernels: Callable[[str], Kernels], now: datetime) -> Pin:
    """Pin the packages of this hour, if they have headers for the kernel that the release was made with."""
    snapshot = now.strftime(_MOMENT)
    kernel, packages = kernels(f"{serial[:8]}T000000Z").newest, kernels(snapshot)
    if kernel not in packages.with_headers:
        raise CannotPin(
            f"release {serial} was made with kernel {kernel}, for which the packages of {snapshot} have no "
            "headers",
            hint="wait for Canonical's next release, which has a newer kernel, and run this again",
        )
    return Pin(serial=serial, kernel=kernel, snapshot=snapshot, newest_kernel=packages.newest)


def with_pin(lock: str, pin: Pin) -> str:
    """Return the lock's text with the pin in it; keep comments and everything else."""
    changed = _set(lock, "apt", {"snapshot": pin.snapshot, "kernel": pin.newest_kernel})
    return _set(changed, "parent", {"serial": pin.serial, "kernel": pin.kernel})


def _set(lock: str, table: str, values: dict[str, str]) -> str:
    found = next((each for each in _TABLE.finditer(lock) if each["name"] == table), None)
    if found is None:
        first = next(_TABLE.finditer(lock)).start()
        return f"{lock[:first]}{_written(table, '', values)}\n{lock[first:]}"
    return f"{lock[: found.start()]}{_written(table, found['lines'], values)}{lock[found.end() :]}"


def _written(table: str, lines: str, values: dict[str, str]) -> str:
    kept = [line for line in lines.splitlines() if line.partition("=")[0].strip() not in values]
    new = [f'{name} = "{value}"' for name, value in values.items()]
    return "\n".join([f"[{table}]", *new, *kept]) + "\n"


_UNFILLED = re.compile(rf'url = "(?P<url>[^"]+\.(?:tar\.gz|tgz))"\nsha256 = "{TO_BE_FILLED}"')


def with_checksums(lock: str, sha256_of: Callable[[str], str]) -> tuple[str, list[str]]:
    """Fill in each missing checksum of a file; return the text and the URLs of those files.

    Neuron's index of wheels is no file: only a first bake can report its checksum.
    """
    filled = [found["url"] for found in _UNFILLED.finditer(lock)]
    return _UNFILLED.sub(lambda it: f'url = "{it["url"]}"\nsha256 = "{sha256_of(it["url"])}"', lock), filled


def sha256_of(url: str) -> str:
    """Download the file and return its SHA-256; keep none of it."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310  # locks name https alone
            return hashlib.file_digest(answer, "sha256").hexdigest()
    except OSError as error:
        raise NoArchive(
            f"{url} cannot be read, and its checksum is not in the lock: {error}",
            hint="run the same command again, where this address can be reached; no lock has changed",
        ) from None


# Reads Ubuntu's archive at one moment: the kernel that a new AMI for AWS gets, and the kernels with headers.
ARCHIVE = "https://snapshot.ubuntu.com/ubuntu"
_POCKETS = ("", "-updates", "-security")
_SECONDS = 120.0
_HEADERS = re.compile(r"(?m)^Package: linux-headers-([0-9][\w.-]*-aws)$")
_META = "linux-image-aws"
_KERNEL = re.compile(r"linux-image-([0-9][\w.-]*-aws)")


class NoArchive(SlipwayError):
    """The archive did not answer, or not with what its packages were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Hold what the archive had at a moment."""

    newest: str  # of an AMI that is made at that moment
    with_headers: frozenset[str]


def kernels_of(suite: str, moment: str, archive: str = ARCHIVE) -> Kernels:
    """Read the indexes of the suite's pockets; `moment` is written as 20261120T000000Z."""
    indexes = [_index(f"{archive}/{moment}/dists/{suite}{pocket}") for pocket in _POCKETS]
    offered = [kernel for index in indexes for kernel in _offered(index)]
    if not offered:
        raise NoArchive(
            f"the packages of {suite} of {moment} name no {_META}",
            hint="is it a moment of a release of Ubuntu?",
        )
    return Kernels(
        newest=max(offered, key=kernel_numbers),
        with_headers=frozenset(kernel for index in indexes for kernel in _HEADERS.findall(index)),
    )


def _offered(index: str) -> Iterator[str]:
    for stanza in index.split("\n\n"):
        if stanza.startswith(f"Package: {_META}\n"):
            depends = next((line for line in stanza.splitlines() if line.startswith("Depends:")), "")
            yield from _KERNEL.findall(depends)


def _index(pocket: str) -> str:
    url = f"{pocket}/main/binary-amd64/Packages.gz"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310  # the archive, by https
            return gzip.decompress(answer.read()).decode()
    except (urllib.error.URLError, OSError, EOFError) as error:
        raise NoArchive(
            f"{url} cannot be read: {error}",
            hint="run the same command again, where this address can be reached",
        ) from None
