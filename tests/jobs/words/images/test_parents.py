"""A parent AMI and the packages of a lock go together, or the lock says which of the two is newer."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.words.images.ami_locks import (
    is_newer,
    kernel_numbers,
    lock_parameters,
    lock_problems,
    locked_parent,
    serial_of,
)
from tests.jobs.words.images.test_ami_locks import SOUND, said, write

PARENT = '[parent]\nserial = "20261118"\nkernel = "6.14.0-1017-aws"\n'
KERNEL = 'snapshot = "20261120T000000Z"\nkernel = "6.14.0-1018-aws"'
PINNED = PARENT + SOUND.replace('snapshot = "20261120T000000Z"', KERNEL)


def test_a_lock_with_a_parent_that_fits_is_sound_and_tells_components_nothing_more(tmp_path: Path) -> None:
    folder = write(tmp_path, PINNED)
    assert lock_problems(folder, "trn") == ()
    found = locked_parent(folder, "trn")
    assert found is not None
    assert found.serial == "20261118"
    assert lock_parameters(folder, "trn") == lock_parameters(write(tmp_path, SOUND), "trn")


def test_a_lock_without_a_parent_pins_none(tmp_path: Path) -> None:
    assert locked_parent(write(tmp_path, SOUND), "trn") is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('serial = "20261118"', 'serial = "20261121"', "newer than the packages of 20261120T000000Z"),
        ("6.14.0-1017-aws", "6.14.0-1019-aws", "is newer than 6.14.0-1018-aws, the newest of the packages"),
        ("6.14.0-1017-aws", "6.17.0-1001-aws", "is newer than 6.14.0-1018-aws, the newest of the packages"),
        (
            'serial = "20261118"',
            'serial = "current"',
            "[parent]: has serial = 'current', not a serial such as",
        ),
        ('serial = "20261118"\n', "", "[parent]: lacks serial"),
        ('serial = "20261118"', 'day = "20261118"', "[parent]: has the unknown day"),
    ],
)
def test_a_parent_that_does_not_fit_is_said(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in PINNED
    assert expected in said(write(tmp_path, PINNED.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("name", "serial"),
    [
        ("ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261118", "20261118"),
        ("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20261103.1", "20261103.1"),
        ("my-own-image-20261118", None),
        ("", None),
    ],
)
def test_the_name_of_canonical_s_ami_tells_its_release(name: str, serial: str | None) -> None:
    assert serial_of(name) == serial


@pytest.mark.parametrize(
    ("serial", "newer"), [("20261119", False), ("20261120.1", False), ("20261121", True), ("20270101", True)]
)
def test_a_release_is_compared_by_its_day(serial: str, newer: bool) -> None:
    assert is_newer(serial, "20261120T000000Z") is newer


def test_kernels_are_compared_by_their_numbers_and_not_as_text() -> None:
    assert kernel_numbers("6.14.0-1018-aws") > kernel_numbers("6.14.0-999-aws")
