"""The command line: what it loads, what it lists, and how it ends when something goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from jobs import cli
from jobs.core.errors import InvalidConfig, Problem, SlipwayError

ROOT = Path(__file__).resolve().parents[2]
SLIPWAY = str(Path(sys.executable).parent / "slipway")
HEAVY = {"boto3", "botocore", "aws_cdk", "torch", "yaml", "rich", "moto", "cfnlint", "jsii"}
NO_COMMANDS = {"__init__", "output"}  # of jobs/commands: what is not a command of its own

Fail = Callable[[BaseException], int]


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


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
        ["sh", "-c", line.replace("slipway", SLIPWAY)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Runs `slipway boom`, a command that raises what it is given."""

    def run(error: BaseException, *before: str) -> int:
        def callback() -> None:
            raise error

        command = click.Command("boom", callback=callback, help="Raise.")
        monkeypatch.setitem(cli.COMMANDS, "boom", "Raise")
        monkeypatch.setitem(sys.modules, "jobs.commands.boom", SimpleNamespace(command=command))
        return cli.run([*before, "boom"])

    return run


@pytest.mark.parametrize("arguments", [["--help"], ["instances"], ["instances", "dl1.24xlarge", "--json"]])
def test_help_and_the_catalogue_load_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from jobs.cli import run; run({arguments}); print(*sys.modules)"
    loaded = {name.split(".")[0] for name in python(code).splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & HEAVY


def test_help_loads_no_command() -> None:
    code = "import sys; from jobs.cli import run; run(['--help']); print(*sys.modules)"
    loaded = python(code).splitlines()[-1].split()
    assert [name for name in loaded if name.startswith("jobs.commands.")] == ["jobs.commands.output"]


def test_importing_a_command_loads_nothing_heavy() -> None:
    """Whatever a command needs, it imports when it runs: completing its options must not wait for it."""
    commands = ", ".join(f"jobs.commands.{name}" for name in cli.COMMANDS)
    code = f"import sys, {commands}; print(*sys.modules)"
    assert not {name.split(".")[0] for name in python(code).split()} & HEAVY


def test_every_command_has_a_file_and_every_file_a_command() -> None:
    files = {path.stem for path in (ROOT / "jobs" / "commands").glob("*.py")} - NO_COMMANDS
    assert files == set(cli.COMMANDS), (
        "a command is one file in jobs/commands and one line of COMMANDS in jobs/cli.py"
    )


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_the_table_alone_says_in_a_line_what_a_command_does(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert command is not None
    assert command.short_help is None, "the line of COMMANDS is the short help"
    assert command.help, "the command's docstring is its long help"
    line = cli.COMMANDS[name]
    assert line[0].isupper()
    assert not line.endswith(".")
    assert len(line) <= 66, "one line of help on a terminal of 80 columns"


def test_a_users_mistake_is_two_lines_and_no_traceback(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(SlipwayError("zone 'x' is unknown", hint="use us-east-1a")) == 1
    assert capsys.readouterr().err == "error: zone 'x' is unknown\nhint: use us-east-1a\n"


def test_every_problem_of_a_declaration_is_a_line_of_its_own(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [
        Problem(where="dl1.zone", message="no", hint="try b"),
        Problem(where="dl1.max_nodes", message="0"),
    ]
    assert fail(InvalidConfig(problems)) == 2
    assert capsys.readouterr().err == "error: dl1.zone: no; try b\nerror: dl1.max_nodes: 0\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["instancse"], "No such command 'instancse'", "did you mean instances? see 'slipway --help'"),
        (
            ["instances", "--eaf"],
            "No such option '--eaf'",
            "did you mean --efa? see 'slipway instances --help'",
        ),
        (["instances", "--sort", "x"], "'x' is not one of 'name'", "see 'slipway instances --help'"),
        (["--nothing"], "No such option '--nothing'", "see 'slipway --help'"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_the_nearest_right_one(
    arguments: list[str], error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second == f"hint: {hint}"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert re.fullmatch(r"slipway \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_an_interrupt_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait = click.Command("wait", callback=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setitem(cli.COMMANDS, "wait", "Wait")
    monkeypatch.setitem(sys.modules, "jobs.commands.wait", SimpleNamespace(command=wait))
    assert cli.run(["wait"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_our_own_is_told_and_its_traceback_kept(
    fail: Fail, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fail(KeyError("lost")) == 70
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: unexpected KeyError: 'lost'"
    [log] = tmp_path.iterdir()
    assert str(log) in hint
    assert "Traceback (most recent call last)" in log.read_text()


def test_debug_shows_the_traceback_at_once(fail: Fail, capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(KeyError("lost"), "--debug") == 70  # type: ignore[call-arg]  # the options before the command
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "the traceback is above" in printed


def test_a_full_or_unreadable_disk_is_no_fault_of_ours(
    fail: Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(PermissionError(13, "Permission denied", "here/there")) == 1
    assert capsys.readouterr().err.startswith("error: Permission denied: here/there\n")


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
    ],
)
def test_what_aws_refuses_is_told_with_what_to_do(
    fail: Fail, error: Exception, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(error) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: AWS: ")
    assert hint in second


# Python's output fails at once when it is unbuffered, and else when it leaves the buffer, at the very end.
BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
@pytest.mark.parametrize("arguments", [["--help"], ["instances"], ["instances", "--json"]])
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
    done = in_a_shell("slipway instances >&-")
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is nowhere to print to")


def test_no_file_is_opened_under_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Or else what a library writes to descriptor 1 would end in that file."""
    code = "from jobs.failures import open_streams; open_streams(); exit(open('file', 'w').fileno())"
    done = in_a_shell(f'cd {tmp_path} && {sys.executable} -c "{code}" >&- 2>&- <&-')
    assert done.returncode > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a Linux device")
@BUFFERED
def test_a_full_disk_behind_standard_output_is_an_error(unbuffered: str) -> None:
    done = in_a_shell("slipway instances >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: No space left on device"
    assert "Exception ignored" not in done.stderr


def test_a_locale_without_letters_prints_them_escaped() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = slipway("instances", "größe-日本", **ascii_only)
    assert done.returncode == 1
    assert done.stderr.startswith("error: unknown instance type 'gr")
    assert "Traceback" not in done.stderr


def test_a_locale_without_letters_prints_data_escaped_too() -> None:
    code = (
        "from jobs.failures import open_streams; from jobs.commands.output import print_text;"
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
    done = in_a_shell(f"cd {tmp_path} && env -u HOME slipway instances dl1.24xlarge")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0
    assert f"_SLIPWAY_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("slipway inst", {"instances"}),
        ("slipway --deb", {"--debug"}),
        ("slipway instances --e", {"--efa"}),
        ("slipway instances trn1", {"trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge"}),
        ("slipway completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_the_shell_completes_commands_options_and_instance_types(typed: str, offered: set[str]) -> None:
    count = str(len(typed.split(" ")) - 1)
    done = slipway(_SLIPWAY_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=count)
    assert done.returncode == 0, done.stderr
    assert {line.split(",")[1] for line in done.stdout.split()} == offered
