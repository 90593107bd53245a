"""Asks Ubuntu's archive of one moment which kernel an AMI for AWS gets, and which kernels have headers."""

from __future__ import annotations

import gzip
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.ami_locks import kernel_numbers

ARCHIVE = "https://snapshot.ubuntu.com/ubuntu"
_POCKETS = ("", "-updates", "-security")
_SECONDS = 120.0
_HEADERS = re.compile(r"(?m)^Package: linux-headers-([0-9][\w.-]*-aws)$")
_META = "linux-image-aws"
_KERNEL = re.compile(r"linux-image-([0-9][\w.-]*-aws)")


class NoArchive(SlipwayError):
    """The archive did not tell what its packages were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Holds what the archive had at a moment."""

    newest: str  # what an AMI gets that is made then
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
