"""An error in input, arguments or machine is told in one line, and nothing finished is lost."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows import prepare as merge_command
from slipway.containers.data.rows import prepare_bert
from slipway.containers.data.rows.shards import read_manifest
from slipway.containers.data.sources.sources import FetchSource, SourceFile, inside, local_source
from tests.containers.data.rows.test_prepare import ROOT, command, rows_of

Write = Callable[[Path], object]
GOOD = b"One sentence here. And another one.\n\nA second document. With more.\n\n"


def refusal(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    assert prepare_bert.main(arguments) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    progress = [line for line in lines if line.startswith("prepare_bert: ")]
    assert len(lines) - len(progress) == 1, lines
    return lines[-1]


def arguments_for(text: Path, vocabulary: Path, output: Path, *more: str) -> list[str]:
    return command(text, vocabulary, output, *more)[3:]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the input is empty: 1 files, 0 bytes"),
        (b"\xef\xbb\xbf" + GOOD, "begins with a byte order mark"),
        (GOOD.decode().encode("utf-16"), "is UTF-16; convert it: iconv -f UTF-16"),
        (GOOD.decode().encode("utf-16-le"), "are zero; if it is UTF-16"),
        (GOOD + "Zürich".encode("latin-1"), "text:5: byte 69 (0xfc) is not UTF-8; convert the file"),
        (GOOD + b"cut \xe2\x82", "text:5: byte 72 (0xe2) is not UTF-8"),
        (GOOD + b"\xed\xa0\x80", "text:5: byte 68 (0xed) is not UTF-8"),
        (b"One.\rTwo.\r", "text:1: byte 4 is a carriage return without a line feed; convert the line ends"),
        (gzip.compress(GOOD * 1000, mtime=0), "is compressed by gzip; unpack it first"),
        (b"only one sentence", "the text makes no examples in 1 shards: they need a document of two"),
        (b"\n \n\t\n", "the text makes no examples"),
        ("словарь другого языка. " * 500, "tokens are unknown to"),
    ],
)
def test_text_that_cannot_be_read_is_refused(
    content: bytes | str, told: str, tmp_path: Path, vocabulary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refusal(capsys, arguments_for(text, vocabulary_file, tmp_path / "out"))
    assert line.startswith("error: ")
    assert told in line
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not list((tmp_path / "out").glob(".shard*"))


def test_carriage_returns_before_line_feeds_are_line_ends(tmp_path: Path, vocabulary_file: Path) -> None:
    for name, text in (("dos", GOOD.replace(b"\n", b"\r\n")), ("unix", GOOD)):
        (tmp_path / name).write_bytes(text)
        arguments = arguments_for(tmp_path / name, vocabulary_file, tmp_path / f"{name}-out")
        assert prepare_bert.main(arguments) == 0
    assert rows_of(tmp_path / "dos-out") == rows_of(tmp_path / "unix-out")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda folder: (folder / "link").symlink_to("/etc/passwd"),
            "is a symbolic link, and links are not followed",
        ),
        (lambda folder: (folder / "loop").symlink_to(folder), "is a symbolic link"),
        (lambda folder: os.mkfifo(folder / "pipe"), "is not a regular file"),
        (lambda folder: (folder / "a\nb").write_text("x"), "cannot be used; names are printable"),
        (lambda folder: Path(os.fsdecode(bytes(folder) + b"/\xff")).write_text("x"), "cannot be used"),
    ],
)
def test_what_is_no_plain_file_in_a_folder_is_refused(
    make: Write, told: str, tmp_path: Path, vocabulary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "good").write_bytes(GOOD)
    make(folder)
    assert told in refusal(capsys, arguments_for(folder, vocabulary_file, tmp_path / "out"))


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "a//b", "a/../b", ".", "", "a\0b", "k" * 1025, "\ud800"]
)
def test_names_that_lead_out_of_their_root_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        inside(tmp_path, name)
    with pytest.raises(DataError):
        FetchSource((SourceFile(name, 1),), lambda *_: b"x")


def test_a_link_out_of_the_root_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "away").symlink_to("/etc")
    with pytest.raises(DataError, match="leads out of"):
        local_source(tmp_path, ("away/passwd",))


def test_text_that_shrinks_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(GOOD)
    source = local_source(tmp_path / "text")
    (tmp_path / "text").write_bytes(GOOD[:10])
    with pytest.raises(DataError, match="gave 10 of 68 bytes from byte 0 on: it changed"):
        source.read("text", 0, len(GOOD))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not a WordPiece vocabulary: [PAD] is not in its 1 lines"),
        (b'{"hello": 1}', "is not a WordPiece vocabulary"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n", "vocab.txt:7 repeats 'a' of line 6"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\na\n", "vocab.txt:6 is ''"),
    ],
)
def test_a_foreign_vocabulary_is_refused(
    content: bytes, told: str, tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    assert told in refusal(capsys, arguments_for(corpus, tmp_path / "vocab.txt", tmp_path / "out"))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--shards", "0"], "--shards is 0; give a number from 1"),
        (["--workers", "0"], "--workers is 0"),
        (["--duplicates", "0"], "--duplicates is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--array-index", "2", "--array-size", "2"], "--array-index is 2 of --array-size 2"),
        (["--input", "/no/such/folder"], "does not exist"),
        (["--input", "ftp://me:secret@host/file"], "'ftp://host/file' begins with ftp://; give a path"),
        (["--only", "../../etc/passwd"], "leads out of its folder"),
        (["--output", "/"], "is not a folder for a dataset"),
        (["--output", "~"], "is not a folder for a dataset"),
        (["--output", "/proc/nothing"], "cannot write to --output"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    more: list[str],
    told: str,
    tmp_path: Path,
    corpus: Path,
    vocabulary_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told in refusal(capsys, arguments_for(corpus, vocabulary_file, tmp_path / "out", *more))


def test_the_output_is_kept_out_of_the_input(
    tmp_path: Path, vocabulary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_bytes(GOOD)
    assert "overlap" in refusal(capsys, arguments_for(tmp_path, vocabulary_file, tmp_path / "out"))


def test_a_folder_of_other_things_is_left_alone(
    tmp_path: Path, corpus: Path, vocabulary_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "holds 'thesis.txt' but no plan.json" in refusal(
        capsys, arguments_for(corpus, vocabulary_file, tmp_path)
    )
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_full_disk_loses_no_finished_shard(corpus: Path, vocabulary_file: Path, tmp_path: Path) -> None:
    """The kernel refuses to let a file grow past the limit, as it does on a full disk."""
    small, out = tmp_path / "small.txt", tmp_path / "out"
    text = corpus.read_bytes()
    document = text[: text.index(b"\n\n") + 2]
    # The first shard's text is one document again and again, which deflates to little; the second's is not.
    small.write_bytes(document * (len(text) // len(document)) + text)
    subprocess.run(command(small, vocabulary_file, tmp_path / "whole", "--shards", "2"), cwd=ROOT, check=True)
    first, second = (path.stat().st_size for path in sorted((tmp_path / "whole").glob("*.hdf5")))
    assert first < second
    arguments = command(small, vocabulary_file, out, "--shards", "2")
    most = (first + second) // 2

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    failed = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert "no space is left for .shard-00001.hdf5" in failed.stderr
    assert "finished shards are kept" in failed.stderr
    assert [path.name for path in out.iterdir() if "shard" in path.name] == ["shard-00000.hdf5"]
    kept = (out / "shard-00000.hdf5").stat().st_ino
    subprocess.run(arguments, cwd=ROOT, capture_output=True, check=True)
    assert (out / "shard-00000.hdf5").stat().st_ino == kept
    assert rows_of(out) == rows_of(tmp_path / "whole")


def test_one_endless_line_takes_no_memory(corpus: Path, vocabulary_file: Path, tmp_path: Path) -> None:
    """If they were read whole, 128 MB of text would take more memory than this; the kernel measures it.

    VmHWM is read, not ru_maxrss, which begins with the memory of the process that started this one.
    """
    line, out = tmp_path / "line.txt", tmp_path / "out"
    words = corpus.read_bytes().replace(b"\n", b" ").replace(b".", b"")
    with line.open("wb") as file:
        for _ in range(128_000_000 // len(words)):
            file.write(words)
    script = (
        "import re, sys; from slipway.containers.data.rows import prepare_bert\n"
        "code = prepare_bert.main(sys.argv[1:])\n"
        "print(re.search('VmHWM:\\\\s+([0-9]+)', open('/proc/self/status').read())[1]); sys.exit(code)"
    )
    arguments = arguments_for(line, vocabulary_file, out, "--duplicates", "1", "--shards", "1")
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    peak_mb = int(done.stdout.split()[-1]) / 1000
    assert peak_mb < 200
    assert read_manifest(out).rows > 100_000


def test_a_second_run_into_one_folder_is_refused(
    corpus: Path, vocabulary_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import fcntl

    out = tmp_path / "out"
    out.mkdir()
    with (out / ".lock-0").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert "another preparation is writing to" in refusal(
            capsys, arguments_for(corpus, vocabulary_file, out)
        )


def test_records_that_contradict_each_other_are_not_merged(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(dataset, out)
    shutil.copy(out / "records" / "00001.json", out / "records" / "00002.json")
    assert merge_command.main(["--output", str(out)]) == 1
    assert "00002.json is the record of another shard, 1" in capsys.readouterr().err


def test_a_manifest_changed_by_hand_is_refused(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(dataset, out)
    path = out / "manifest.json"
    path.write_text(path.read_text().replace("shard-00001.hdf5", "../shard-00001.hdf5"))
    with pytest.raises(DataError, match="leads out of its folder"):
        read_manifest(out)
    path.write_text((dataset / "manifest.json").read_text().replace('"number": 1', '"number": 2'))
    with pytest.raises(DataError, match="twice"):
        read_manifest(out)
    path.write_text((dataset / "manifest.json").read_text().replace('"documents": ', '"documents": 1'))
    with pytest.raises(DataError, match="does not match its digest"):
        read_manifest(out)


# A FIFO or a device in place of a file is refused at once, and hangs no preparation.


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
