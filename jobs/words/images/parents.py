"""The AMI that a machine image begins with: a release of Canonical's, by its serial, and the kernel it runs.

Drivers are built for that kernel, with headers from the packages of one moment: a parent that is newer than
the moment runs a kernel that those packages do not know. `slipway pin` writes both into the image's lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Words of AWS's and Canonical's parameters whose value is replaced with every release.
MOVING = frozenset({"latest", "current", "recommended"})
SERIAL = re.compile(r"[0-9]{8}(\.[0-9]+)?")
_CURRENT = "/stable/current/"
_OF_NAME = re.compile(r"^ubuntu/images/.*-(?P<serial>[0-9]{8}(\.[0-9]+)?)$")
_DAY = 8  # digits of a serial or of a moment such as 20261120T000000Z


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Holds the table [parent] of a lock."""

    serial: str
    kernel: str


def moves(parent: str) -> bool:
    """Return True if the parameter's value changes with every release."""
    return bool(MOVING & set(parent.split("/")))


def pinned(parent: str, serial: str | None) -> str:
    """Return the parameter of one release of Canonical's in place of the one that names the newest."""
    return parent.replace(_CURRENT, f"/stable/{serial}/") if serial else parent


def can_be_pinned(parent: str) -> bool:
    return parent.startswith("ssm:/aws/service/canonical/") and _CURRENT in parent


def serial_of(ami_name: str) -> str | None:
    """Read the serial in the name of an AMI of Canonical's; None for anybody else's."""
    found = _OF_NAME.match(ami_name)
    return found["serial"] if found else None


def is_newer(serial: str, snapshot: str) -> bool:
    """Return True if a release is of a later day than the packages."""
    return serial[:_DAY] > snapshot[:_DAY]


def kernel_numbers(kernel: str) -> tuple[int, ...]:
    """6.14.0-1018-aws is 6, 14, 0, 1018."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", kernel))


def parent_mistakes(parent: Mapping[str, object], apt: Mapping[str, object]) -> Iterator[str]:
    """Say where a sound [parent] and a sound [apt] of a lock do not go together."""
    serial, snapshot = str(parent["serial"]), str(apt["snapshot"])
    if is_newer(serial, snapshot):
        yield f"has serial = {serial}, which is newer than the packages of {snapshot}"
    kernel, newest = str(parent["kernel"]), apt.get("kernel")
    if isinstance(newest, str) and kernel_numbers(kernel) > kernel_numbers(newest):
        yield f"has kernel = {kernel}, which is newer than {newest}, the newest of the packages of {snapshot}"
