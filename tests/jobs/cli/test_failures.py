"""A command that fails says why, has the right exit code, and writes to the right stream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProxyConnectionError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from slipway.jobs.cli import cli
from slipway.jobs.cloud.aws import Unanswered, no_answer
from slipway.jobs.cloud.deployed import NotDeployed, find_target_by_name
from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError
from slipway.yard.state import YardState, process_identity, write_state

Fail = Callable[..., int]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Runs `slipway boom`, a command that raises what it is given."""

    def run(error: BaseException, *before: str) -> int:
        def callback() -> None:
            raise error

        command = click.Command("boom", callback=callback, help="Raise.")
        monkeypatch.setitem(cast(dict[str, object], cli.GROUPS["Jobs"]), "boom", ("made_up.boom", "Raise"))
        monkeypatch.setitem(sys.modules, "made_up.boom", SimpleNamespace(boom_command=command))
        return cli.run([*before, "boom"])

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            SlipwayError("zone 'x' is unknown", hint="use us-east-1a"),
            1,
            "error: zone 'x' is unknown\nhint: use us-east-1a\n",
        ),
        (
            InvalidConfig(
                [
                    Problem(where="dl1.zone", message="no", hint="try b"),
                    Problem(where="dl1.max_nodes", message="0"),
                ]
            ),
            2,
            "error: dl1.zone: no; try b\nerror: dl1.max_nodes: 0\n",
        ),
        (PermissionError(13, "Permission denied", "a/b"), 1, "error: Permission denied: a/b\n"),
        (
            no_answer(Unanswered(action="ssm:GetParameter", code="AccessDeniedException", message="no")),
            1,
            "hint: allow ssm:GetParameter to your role: slipway cluster permissions CLUSTER --for PURPOSE",
        ),
    ],
    ids=["a mistake", "each problem of a declaration", "an unreadable disk", "an action that is denied"],
)
def test_a_users_mistake_is_told_in_lines_with_what_to_do_and_no_traceback(
    fail: Fail, capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str
) -> None:
    assert fail(error) == code
    told = capsys.readouterr().err
    assert said in told
    assert all(line.startswith(("error: ", "hint: ")) for line in told.splitlines())


def test_a_folder_that_is_gone_under_the_shell_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.run(["init", "new"]) == 1
    said = "error: the current folder does not exist any more\nhint: go to another one: cd\n"
    assert capsys.readouterr() == ("", said)


def test_an_interrupt_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait = click.Command("wait", callback=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setitem(cast(dict[str, object], cli.GROUPS["Jobs"]), "wait", ("made_up.wait", "Wait"))
    monkeypatch.setitem(sys.modules, "made_up.wait", SimpleNamespace(wait_command=wait))
    # Handle interrupts as at a terminal: a shell that starts this in the background lets it ignore them.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli.run(["wait"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_our_own_is_told_and_its_traceback_kept_or_shown(
    fail: Fail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fail(KeyError("lost")) == 70
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: unexpected KeyError: 'lost'"
    [log] = tmp_path.iterdir()
    assert str(log) in hint
    assert "Traceback (most recent call last)" in log.read_text()
    assert fail(KeyError("lost"), "--debug") == 70
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "the traceback is above" in printed


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NoCredentialsError(), "AWS_PROFILE"),
        (
            ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "ListStacks"),
            "sign in to AWS again",
        ),
        (ClientError({"Error": {"Code": "RequestTimeTooSkewed", "Message": "x"}}, "ListStacks"), "clock"),
        (
            ClientError({"Error": {"Code": "OptInRequired", "Message": "x"}}, "ListStacks"),
            "enable this region",
        ),
        (EndpointConnectionError(endpoint_url="https://batch.us-east-1.amazonaws.com/"), "check the network"),
        (ProxyConnectionError(proxy_url="http://proxy:3128"), "check HTTPS_PROXY and NO_PROXY"),
        (HTTPClientError(error="a web page answered"), "open a browser"),
        (ResponseParserError("invalid XML received"), "open a browser"),
        (SSLError(endpoint_url="https://a/", error="self-signed certificate in chain"), "AWS_CA_BUNDLE"),
    ],
)
def test_what_aws_refuses_is_told_with_what_to_do(
    fail: Fail,
    error: Exception,
    hint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert fail(error) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: AWS: ")
    assert hint in second


def test_expired_keys_of_the_environment_are_not_mended_by_signing_in(
    fail: Fail, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIA")
    assert fail(ClientError({"Error": {"Code": "ExpiredToken", "Message": "old"}}, "ListStacks")) == 1
    assert "unset AWS_ACCESS_KEY_ID" in capsys.readouterr().err


def test_a_question_for_which_there_is_no_terminal_is_no_fault_of_ours(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    """botocore asks for the code of an MFA device so."""
    assert fail(EOFError()) == 1
    assert "error: a question could not be answered, because there is no terminal" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        NoCredentialsError(),
        no_answer(
            Unanswered(action="ssm:GetParameter", code="NoCredentialsError", message="none"), "targets"
        ),
    ],
)
def test_a_shell_that_knows_nothing_of_the_yard_is_told_the_line_to_type(
    fail: Fail,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(tmp_path))
    assert fail(error) == 1
    assert "hint: set AWS_PROFILE or sign in" in capsys.readouterr().err
    identity = process_identity(os.getpid())
    assert identity
    write_state(tmp_path, YardState(pid=os.getpid(), identity=identity, endpoint="http://a", started_at=""))
    assert fail(error) == 1
    told = capsys.readouterr().err
    assert 'hint: a yard is up on this machine; to use it in this shell: eval "$(slipway yard env)"' in told
    assert "; for AWS" in told
    write_state(tmp_path, YardState(pid=os.getpid(), identity="gone", endpoint="http://a", started_at=""))
    assert fail(error) == 1
    assert "eval" not in capsys.readouterr().err


# Output that is closed, full, unread or ASCII only gives no traceback and the right exit code.
SLIPWAY = str(Path(sys.executable).parent / "slipway")


def in_a_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line.replace("slipway ", f"{SLIPWAY} ")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


# Unbuffered output fails at once; buffered output fails at the very end, when the buffer is written.
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


def test_a_closed_standard_output_is_an_error_and_no_file_is_opened_under_its_number(tmp_path: Path) -> None:
    """Otherwise what a library writes to descriptor 1 would end in that file."""
    done = in_a_shell("slipway instance list >&-")
    assert (done.returncode, done.stderr.partition(" to print")[0]) == (1, "error: there is nowhere")
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


def test_a_locale_without_letters_prints_them_escaped_in_a_folder_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o500)
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = in_a_shell(f"cd {tmp_path} && env -u HOME slipway instance list größe-日本", **ascii_only)
    assert done.returncode == 1
    assert done.stderr.startswith("error: unknown instance type 'gr")
    assert "Traceback" not in done.stderr


def test_a_locale_without_letters_prints_data_escaped_too() -> None:
    code = (
        "from slipway.jobs.cli.failures import open_streams; from slipway.jobs.output import print_text; "
        "open_streams(); print_text('gr' + chr(246) + chr(223) + 'e')"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    assert in_a_shell(f'{sys.executable} -c "{code}"', **ascii_only).stdout == "gr\\xf6\\xdfe\n"


@pytest.mark.parametrize("name", ["../x", "DL1", "dl1 ", "x" * 200, "dl1\n"])
def test_a_name_that_no_cluster_can_have_is_refused_without_asking_aws(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.jobs.cloud.deployed.find_target", lambda *_: pytest.fail("AWS was asked"))
    with pytest.raises(NotDeployed, match="cannot be the name of a cluster; allowed are") as refusal:
        find_target_by_name(name, "us-east-1")
    assert refusal.value.message.isprintable()


def test_a_user_whom_the_system_does_not_know_needs_no_home() -> None:
    """So are those of containers that run under any number."""
    program = (
        "import pwd, sys; pwd.getpwuid = lambda _: {}['nobody']; "
        "sys.argv[1:] = ['instance', 'prices']; from slipway.jobs.entry import main; main()"
    )
    without = {"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in without}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr
