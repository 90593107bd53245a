"""A FIFO or a device in place of a file is refused at once, and hangs no preparation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.shards import read_manifest
from slipway.containers.data.sources.sources import local_source
from tests.containers.data.test_bad_input import GOOD, Write, arguments_for, refusal


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "vocab.txt is a FIFO, and must be a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "vocab.txt is a device, and must be a regular file"),
        (Path.mkdir, "vocab.txt is a folder, and must be a regular file"),
        (lambda path: path.write_bytes(b"x" * ((64 << 20) + 1)), "at most 67108864 are read"),
    ],
)
def test_a_vocabulary_that_would_never_end_is_refused_at_once(
    make: Write, told: str, tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "vocab.txt")
    assert told in refusal(capsys, arguments_for(corpus, tmp_path / "vocab.txt", tmp_path / "out"))


def test_text_that_is_a_fifo_by_the_time_it_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(GOOD)
    source = local_source(tmp_path / "text")
    (tmp_path / "text").unlink()
    os.mkfifo(tmp_path / "text")
    with pytest.raises(DataError, match="text is a FIFO"):
        source.read("text", 0, len(GOOD))


def test_a_manifest_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(DataError, match="is a FIFO"):
        read_manifest(tmp_path)
