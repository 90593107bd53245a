"""The command line: what it loads, what it lists and what it completes."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from slipway._version import version_of_source
from slipway.jobs.cli import cli
from slipway.jobs.platforms.journal import Entry, Journal

ROOT = Path(__file__).resolve().parents[3]
SLIPWAY = str(Path(sys.executable).parent / "slipway")
HEAVY = {"boto3", "botocore", "aws_cdk", "torch", "yaml", "rich", "moto", "cfnlint", "jsii"}
PARTS = ("cli", "completing", "failures", "options", "version")
NO_COMMANDS = {f"slipway.jobs.cli.{name}" for name in PARTS} | {
    "slipway.jobs.cli.estimate_views",  # parts of `slipway estimate`
    "slipway.jobs.cli.submitting",  # what `slipway submit` and `slipway run` share
    "slipway.jobs.cli.estimate_why",
    "slipway.yard.commands.asking",
    "slipway.yard.commands.account",  # parts of `slipway yard`
    "slipway.yard.commands.faults",
    "slipway.yard.commands.hosts",
    "slipway.yard.commands.mail",
    "slipway.yard.commands.permissions",
}


def commands() -> Iterator[tuple[str, str, str]]:
    """Yield each command as it is typed, with its file and its line of help."""
    for name, (file, line) in ((name, entry) for each in cli.GROUPS.values() for name, entry in each.items()):
        if file:
            yield name, file, line
        for child, (child_file, child_line) in cli.GROUPED.get(name, {}).items():
            yield f"{name} {child}", child_file, child_line


COMMANDS = {name: line for name, _, line in commands()}
COMMAND_FILES = {name: file for name, file, _ in commands()}
MODULES = set(COMMAND_FILES.values())


def command_of(name: str) -> click.Command:
    found: click.Command = cli.cli
    for word in name.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, name
        found = below
    return found


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["instance", "list"], ["instance", "list", "dl1.24xlarge", "--json"]]
)
def test_help_and_the_catalogue_load_nothing_heavy_and_no_other_command(arguments: list[str]) -> None:
    code = f"import sys; from slipway.jobs.cli.cli import run; run({arguments}); print(*sys.modules)"
    modules = set(python(code).splitlines()[-1].split())
    loaded = {name.split(".")[0] for name in modules}
    assert "click" in loaded
    assert not loaded & HEAVY
    assert MODULES & modules == ({COMMAND_FILES["instance list"]} if arguments[0] == "instance" else set())
    assert not [name for name in modules if name.startswith("slipway.infra")]


def test_importing_a_command_loads_nothing_heavy() -> None:
    """A command imports what takes long when it runs: completing its options must not wait for it."""
    commands = ", ".join(sorted(MODULES))
    code = f"import sys, {commands}; print(*sys.modules)"
    assert not {name.split(".")[0] for name in python(code).split()} & HEAVY


def test_every_command_has_a_file_and_every_file_a_command() -> None:
    rooms = {module.rpartition(".")[0] for module in MODULES}
    files = {
        f"{room}.{module.name}"
        for room in rooms
        for module in pkgutil.iter_modules(import_module(room).__path__)
        if not module.ispkg
    }
    assert files - NO_COMMANDS == MODULES, (
        "a command is a function NAME_command in a file of jobs/cli, and a line of GROUPS in jobs/cli/cli.py"
    )


def test_help_shows_every_command_once_under_a_heading_and_what_a_newcomer_needs_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = [name for names in cli.GROUPS.values() for name in names]
    assert len(shown) == len(set(shown))
    groups = {name for names in cli.GROUPS.values() for name, (file, _) in names.items() if not file}
    assert groups == set(cli.GROUPED)
    assert (cli.run(["--help"]), cli.run([])) == (0, 2)
    printed = capsys.readouterr()
    assert "Start here:" in printed.err, "without a command, it is shown as an error"
    lines = printed.out.splitlines()
    headings = [line.removesuffix(":") for line in lines if line.removesuffix(":") in cli.GROUPS]
    assert headings == list(cli.GROUPS)
    first = lines[lines.index(f"{headings[0]}:") + 1].split()[0]
    assert (headings[0], first) == ("Start here", "init")
    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    old = {name for name in cli.RENAMED if " " not in name}
    assert not listed & old - set(cli.GROUPED), "an old name is in no help"


def test_every_function_of_a_command_is_listed() -> None:
    found = {
        each.removesuffix("_command").replace("_", "-")
        for module in map(import_module, MODULES)
        for each, value in vars(module).items()
        if each.endswith("_command") and isinstance(value, click.Command)
    }
    assert found == {name.replace(" ", "-") for name in COMMANDS}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_alone_says_in_a_line_what_a_command_does(name: str) -> None:
    command = command_of(name)
    assert command.short_help is None, "the line of the table is the short help"
    assert command.help, "the command's docstring is its long help"
    line = COMMANDS[name]
    assert line[0].isupper()
    assert not line.endswith(".")
    assert len(line) <= 66, "one line of help on a terminal of 80 columns"


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("instnace", "No such command 'instnace'", "did you mean instance? see 'slipway --help'"),
        (
            "instance list --eaf",
            "No such option '--eaf'",
            "did you mean --efa or --all? see 'slipway instance list --help'",
        ),
        ("instance list --sort x", "'x' is not one of 'name'", "see 'slipway instance list --help'"),
        ("image bkae", "No such command 'bkae'", "did you mean bake? see 'slipway image --help'"),
        ("--nothing", "No such option '--nothing'", "see 'slipway --help'"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_the_nearest_right_one(
    words: str, error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(words.split()) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second == f"hint: {hint}"


def test_the_version_of_a_checkout_comes_with_its_commit_and_the_extras(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["--version"]) == 0
    said = capsys.readouterr().out
    found = re.fullmatch(r"slipway (\S+) \(extras: (.+)\)\n", said)
    assert found, said
    assert found[1] == version_of_source(ROOT)
    assert {"infra", "yard"} <= set(found[2].split(", "))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0
    assert f"_SLIPWAY_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("slipway inst", {"instance"}),
        ("slipway bu", set()),
        ("slipway image b", {"build", "bake"}),
        ("slipway --deb", {"--debug"}),
        ("slipway instance list --e", {"--efa"}),
        ("slipway instance list trn1", {"trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge"}),
        ("slipway completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_the_shell_completes_commands_options_and_instance_types(typed: str, offered: set[str]) -> None:
    count = str(len(typed.split(" ")) - 1)
    asked = {"_SLIPWAY_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": count}
    done = subprocess.run([SLIPWAY], capture_output=True, text=True, check=False, env={**os.environ, **asked})
    assert done.returncode == 0, done.stderr
    assert {line.split(",")[1] for line in done.stdout.split()} == offered


def offered_for(typed: str) -> list[str]:
    *words, incomplete = typed.split(" ")
    found = ShellComplete(cli.cli, {}, cli.PROGRAM, cli.COMPLETE_VARIABLE).get_completions(words, incomplete)
    return [item.value for item in found]


def test_the_shell_completes_clusters_recipes_and_jobs_without_asking_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["init", str(tmp_path / "mine"), "--name", "own-cluster"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    journal = Journal(folder=tmp_path / "slipway" / "submissions" / "aws" / "123456789012" / "us-east-1")
    journal.folder.mkdir(parents=True)
    entry = Entry(
        name="bert-1", target="a", recipe="r", nodes=1, image="", image_digest=None, written_at=1, job_id="1"
    )
    journal.write(entry)
    journal.write(replace(entry, name="bert-2", written_at=2))
    for command in ("up", "preflight", "cluster destroy", "cluster list", "run --on", "estimate x --on"):
        assert offered_for(f"{command} own") == ["own-cluster"]
    for command in ("status", "logs", "explain", "cancel", "report curve", "calibrate", "run --depends-on"):
        assert offered_for(f"{command} ber")[-2:] == ["bert-2", "bert-1"]
    for command in ("submit", "recipes", "compare"):
        assert offered_for(f"{command} s") == ["sft", "smoke", "sine"]
    (tmp_path / "mine" / "clusters.py").write_text("CLUSTERS = (\n")
    assert offered_for("up o") == [], "a broken declaration completes to nothing"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_same_things_have_the_same_names_in_every_command(name: str) -> None:
    """A deployed cluster is chosen by --on CLUSTER, and what ran is a JOB."""
    for param in command_of(name).params:
        words = param.make_metavar(click.Context(command_of(name)))
        assert not {"TARGET", "RUN"} & set(re.split(r"[^A-Z]+", words))
        if "--on" in param.opts:
            assert words in ("CLUSTER", "CLUSTER|TYPE")


@pytest.mark.parametrize(("old", "new"), cli.RENAMED.items(), ids=list(cli.RENAMED))
def test_an_old_name_does_what_the_new_one_does_and_says_it(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[tuple[str, list[str]]] = []

    def make_context(
        self: click.Command, name: str, words: list[str], parent: click.Context | None = None, **_: object
    ) -> click.Context:
        if isinstance(self, cli.CommandTable):
            return made(self, name, words, parent)
        called.append((f"{parent.command_path if parent else ''} {name}", words))
        raise click.exceptions.Exit

    made = click.Command.make_context
    monkeypatch.setattr(click.Command, "make_context", make_context)
    for name in (old, new):
        assert cli.run([*name.split(), "one", "--two"]) == 0
    assert called[0] == called[1]
    assert capsys.readouterr().err == (
        f"`slipway {old}` is now `slipway {new}`; the old name goes with version 2.0\n"
    )


def test_no_help_shows_what_only_click_should_read_or_cuts_a_line_of_its_list() -> None:
    """A doubled backslash prints `\\b`, and runs the lines of an example together."""
    asked = list[str]()

    def look(command: click.Command, name: str) -> None:
        settings = {**cli.cli.context_settings, "terminal_width": 80}
        context = click.Context(command, info_name=name, **settings)  # a command keeps its first
        text = command.get_help(context)
        assert "\\b" not in text, name
        assert "..." not in text.partition("Commands:\n")[2], name
        asked.append(name)
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                look(found, f"{name} {child}")

    look(cli.cli, cli.PROGRAM)
    assert f"{cli.PROGRAM} yard ssh" in asked
