"""Output that is closed, full, without a reader or without letters: no traceback, and a true exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SLIPWAY = str(Path(sys.executable).parent / "slipway")


def slipway(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SLIPWAY, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        encoding="utf-8",
    )


def in_a_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line.replace("slipway ", f"{SLIPWAY} ")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


# Python's output fails at once when it is unbuffered, and else when it leaves the buffer, at the very end.
BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
@pytest.mark.parametrize("arguments", [["--help"], ["instance", "list"], ["instance", "list", "--json"]])
def test_a_reader_that_goes_away_ends_it_quietly(arguments: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [SLIPWAY, *arguments],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_closed_standard_output_is_an_error_and_no_traceback() -> None:
    done = in_a_shell("slipway instance list >&-")
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is nowhere to print to")


def test_no_file_is_opened_under_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Or else what a library writes to descriptor 1 would end in that file."""
    code = (
        "from slipway.jobs.cli.failures import open_streams;open_streams(); exit(open('file', 'w').fileno())"
    )
    done = in_a_shell(f'cd {tmp_path} && {sys.executable} -c "{code}" >&- 2>&- <&-')
    assert done.returncode > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a Linux device")
@BUFFERED
def test_a_full_disk_behind_standard_output_is_an_error(unbuffered: str) -> None:
    done = in_a_shell("slipway instance list >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: No space left on device"
    assert "Exception ignored" not in done.stderr


def test_a_locale_without_letters_prints_them_escaped() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = slipway("instance", "list", "größe-日本", **ascii_only)
    assert done.returncode == 1
    assert done.stderr.startswith("error: unknown instance type 'gr")
    assert "Traceback" not in done.stderr


def test_a_locale_without_letters_prints_data_escaped_too() -> None:
    code = (
        "from slipway.jobs.cli.failures import open_streams;"
        "from slipway.jobs.output import print_text;"
        "open_streams(); print_text('gr' + chr(246) + chr(223) + 'e')"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, **ascii_only},
        check=True,
    )
    assert done.stdout == b"gr\\xf6\\xdfe\n"


def test_a_folder_that_cannot_be_written_and_a_missing_home_do_no_harm(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = in_a_shell(f"cd {tmp_path} && env -u HOME slipway instance list dl1.24xlarge")
    assert done.returncode == 0, done.stderr
