"""A file that a user names is a regular file of a bounded size, or it is refused at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.containers.runtime import disk
from slipway.containers.runtime.named_files import (
    MissingFile,
    UnusableFile,
    open_regular,
    read_bytes,
    read_text,
)


def listening_socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is a FIFO, and must be a regular file"),
        (Path.mkdir, "is a folder, and must be a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device, and must be a regular file"),
        (listening_socket, "is a socket, and must be a regular file"),
        (sparse, "has 1073741824 bytes or more, and at most 1000 are read"),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/proc/self/mem"), "cannot be read: Input/output error"),
        # It reports no size, and has more bytes than allowed.
        (lambda path: path.symlink_to("/proc/self/smaps"), "has 1001 bytes or more"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed <socket")
def test_what_is_no_regular_file_of_that_size_is_refused_at_once(
    make: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    make(tmp_path / "named")
    with pytest.raises(UnusableFile) as refused:
        read_bytes(tmp_path / "named", 1000)
    assert said in str(refused.value)


def test_a_file_that_is_missing_is_told_from_one_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="none does not exist"):
        read_bytes(tmp_path / "none", 1000)
    with pytest.raises(UnusableFile, match="embedded null byte"):
        read_bytes(Path("a\0b"), 1000)


def test_a_file_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    (tmp_path / "named").write_bytes(b"x" * 1000)
    assert len(read_bytes(tmp_path / "named", 1000)) == 1000
    with pytest.raises(UnusableFile, match="has 1000 bytes or more, and at most 999"):
        read_bytes(tmp_path / "named", 999)


def test_text_is_utf_8_and_the_refusal_says_which_byte_is_not(tmp_path: Path) -> None:
    (tmp_path / "named").write_bytes(b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe")
    assert read_text(tmp_path / "named", 1000) == "größe"
    (tmp_path / "named").write_bytes("größe".encode("latin-1"))
    with pytest.raises(UnusableFile, match=r"named is not UTF-8 text \(byte 2\)"):
        read_text(tmp_path / "named", 1000)


def test_links_are_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"content")
    (tmp_path / "link").symlink_to("real")
    assert read_bytes(tmp_path / "link", 1000) == b"content"
    with pytest.raises(OSError, match="symbolic link"):
        open_regular(tmp_path / "link", follow_links=False)


@pytest.mark.parametrize("read", [disk.open_existing, lambda path: disk.read_bounded(path, 1000)])
def test_a_fifo_in_a_checkpoint_folder_stops_no_reader(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "MANIFEST.json")
    with pytest.raises(UnusableFile, match="is a FIFO"):
        read(tmp_path / "MANIFEST.json")


def test_no_file_stays_open_after_a_refusal(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(UnusableFile):
            read_bytes(tmp_path, 1000)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
