"""The command line: what it loads, what it lists and what it completes."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import click
import pytest

from slipway.jobs.cli import cli

ROOT = Path(__file__).resolve().parents[3]
SLIPWAY = str(Path(sys.executable).parent / "slipway")
HEAVY = {"boto3", "botocore", "aws_cdk", "torch", "yaml", "rich", "moto", "cfnlint", "jsii"}
PARTS = ("cli", "failures", "options", "version")
NO_COMMANDS = {f"slipway.jobs.cli.{name}" for name in PARTS} | {
    "slipway.jobs.cli.estimate_views",  # parts of `slipway estimate`
    "slipway.jobs.cli.submitting",  # what `slipway submit` and `slipway run` share
    "slipway.yard.commands.account",  # parts of `slipway yard`
    "slipway.yard.commands.faults",
    "slipway.yard.commands.hosts",
    "slipway.yard.commands.mail",
    "slipway.yard.commands.permissions",
}


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


@pytest.mark.parametrize("arguments", [["--help"], ["instances"], ["instances", "dl1.24xlarge", "--json"]])
def test_help_and_the_catalogue_load_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from slipway.jobs.cli.cli import run; run({arguments}); print(*sys.modules)"
    loaded = {name.split(".")[0] for name in python(code).splitlines()[-1].split()}
    assert "click" in loaded
    assert not loaded & HEAVY


def test_help_loads_no_command() -> None:
    code = "import sys; from slipway.jobs.cli.cli import run; run(['--help']); print(*sys.modules)"
    loaded = python(code).splitlines()[-1].split()
    assert not set(cli.MODULES.values()) & set(loaded)
    assert not [name for name in loaded if name.startswith("slipway.infra")]


def test_importing_a_command_loads_nothing_heavy() -> None:
    """Whatever a command needs, it imports when it runs: completing its options must not wait for it."""
    commands = ", ".join(sorted(set(cli.MODULES.values())))
    code = f"import sys, {commands}; print(*sys.modules)"
    assert not {name.split(".")[0] for name in python(code).split()} & HEAVY


def test_every_command_has_a_file_and_every_file_a_command() -> None:
    rooms = {module.rpartition(".")[0] for module in cli.MODULES.values()}
    files = {
        f"{room}.{module.name}"
        for room in rooms
        for module in pkgutil.iter_modules(import_module(room).__path__)
        if not module.ispkg
    }
    assert files - NO_COMMANDS == set(cli.MODULES.values()), (
        "a command is a function NAME_command in a file of jobs/cli, and a line of GROUPS in jobs/cli/cli.py"
    )


def test_help_shows_every_command_once_under_a_heading_and_what_a_newcomer_needs_first() -> None:
    shown = [name for names in cli.GROUPS.values() for name in names]
    assert sorted(shown) == sorted(cli.COMMANDS)
    lines = python("from slipway.jobs.cli.cli import run; run(['--help'])").splitlines()
    headings = [line.removesuffix(":") for line in lines if line.removesuffix(":") in cli.GROUPS]
    assert headings == list(cli.GROUPS)
    first = lines[lines.index(f"{headings[0]}:") + 1].split()[0]
    assert (headings[0], first) == ("Start here", "init")


def test_every_function_of_a_command_is_listed() -> None:
    files = {name: import_module(name) for name in cli.MODULES.values()}
    found = {
        each.removesuffix("_command").replace("_", "-")
        for module in files.values()
        for each, value in vars(module).items()
        if each.endswith("_command") and isinstance(value, click.Command)
    }
    assert found == set(cli.COMMANDS)


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


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["instancse"], "No such command 'instancse'", "did you mean instances? see 'slipway --help'"),
        (
            ["instances", "--eaf"],
            "No such option '--eaf'",
            "did you mean --efa or --all? see 'slipway instances --help'",
        ),
        (["instances", "--sort", "x"], "'x' is not one of 'name'", "see 'slipway instances --help'"),
        (
            ["images"],
            "there is no command 'images'",
            "slipway amis lists AMIs; slipway build builds container images",
        ),
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
    assert "Start here:" in capsys.readouterr().err


def test_the_version_comes_with_the_commit_and_the_extras(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    said = capsys.readouterr().out
    found = re.fullmatch(r"slipway (\S+) \((?:commit (\w+)(?:-dirty)?; )?extras: (.+)\)\n", said)
    assert found, said
    assert found[1] == metadata.version("slipway")
    assert {"infra", "yard"} <= set(found[3].split(", "))


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
    asked = {"_SLIPWAY_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": count}
    done = subprocess.run([SLIPWAY], capture_output=True, text=True, check=False, env={**os.environ, **asked})
    assert done.returncode == 0, done.stderr
    assert {line.split(",")[1] for line in done.stdout.split()} == offered
