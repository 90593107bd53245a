"""The command `slipway`. A new command is a function NAME_command in a file here, and a line of GROUPS.

A command in a group, such as `slipway cluster list`, is cluster_list_command and a line of GROUPED.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from slipway.jobs.cli.failures import end, flush_output, open_streams
from slipway.jobs.output import say

PROGRAM = "slipway"
COMPLETE_VARIABLE = "_SLIPWAY_COMPLETE"
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

_HERE = "slipway.jobs.cli"
Commands = Mapping[str, tuple[str, str]]
# Each command by its heading in `slipway --help`, in the order in which a user needs it: its file, and its
# line of help there; its docstring is its full help. A command without a file is a group in GROUPED.
GROUPS: Mapping[str, Commands] = {
    "Start here": {
        "init": (f"{_HERE}.project", "Begin a project of your own: clusters and a training script"),
        "yard": (
            "slipway.yard.commands.yard",
            "Run an AWS of your own on this machine: up, status, down, logs",
        ),
        "up": (f"{_HERE}.up", "Do all that a cluster lacks to run jobs, after showing the price"),
        "preflight": (
            f"{_HERE}.preflight",
            "Check everything a deployment needs, with a fix for each problem",
        ),
    },
    "Jobs": {
        "run": (f"{_HERE}.submit", "Run your own command in your own folder on a deployed cluster"),
        "submit": (f"{_HERE}.submit", "Submit a recipe to a deployed cluster, exactly once"),
        "recipes": (f"{_HERE}.submit", "List the recipes that can be submitted, and their settings"),
        "status": (f"{_HERE}.jobs", "List unfinished jobs, or all with their cost, or show one"),
        "logs": (f"{_HERE}.jobs", "Print the logs of a job, while it runs or afterwards"),
        "explain": (f"{_HERE}.jobs", "Explain in one sentence why a job is not running, or failed"),
        "cancel": (f"{_HERE}.jobs", "Cancel a job"),
        "ssh": (f"{_HERE}.ssh", "Open a shell or a port of a node, with no port open anywhere"),
        "report": ("", "Show what jobs achieved: curve, speedup, tensorboard, page"),
    },
    "Clusters and images": {
        "cluster": ("", "List clusters, fill their buckets, and destroy them"),
        "image": ("", "Build container images and bake AMIs, in the cloud"),
        "instance": ("", "List instance types, and what they cost per hour"),
    },
    "Time and cost, before you pay": {
        "estimate": (f"{_HERE}.estimate", "Estimate throughput, memory, hours and dollars before you pay"),
        "compare": (f"{_HERE}.compare", "Compare a job on every cluster and size, by cost or time"),
        "calibrate": (f"{_HERE}.calibrate", "Correct the estimates with a run of your own"),
        "plan": ("", "Plan many jobs at once, and run the plan"),
    },
    "Your shell": {
        "completion": (f"{_HERE}.project", "Print the script for tab completion in your shell"),
    },
}
GROUPED: Mapping[str, Commands] = {
    "report": {
        "curve": (f"{_HERE}.curves", "Show the loss and the throughput of a training job"),
        "speedup": (f"{_HERE}.curves", "Compare finished runs of a recipe on one node and on more"),
        "tensorboard": (f"{_HERE}.curves", "Show the charts of a training job in a browser"),
        "page": (f"{_HERE}.report", "Write estimates and measurements as one HTML page"),
    },
    "cluster": {
        "list": (f"{_HERE}.clusters", "List the declared clusters: state, nodes, and price per hour"),
        "targets": (f"{_HERE}.clusters", "List the deployed clusters that accept jobs"),
        "quota": (f"{_HERE}.preflight", "Show the vCPU quotas that a cluster needs, or request them"),
        "permissions": (f"{_HERE}.permissions", "Print the IAM policy that somebody needs for a cluster"),
        "upload": (f"{_HERE}.clusters", "Copy files into a cluster's bucket, for its jobs to read"),
        "empty": (f"{_HERE}.destroy", "Delete everything in the bucket of a throw-away cluster"),
        "destroy": (f"{_HERE}.destroy", "Destroy a cluster after its jobs have ended, and say what stays"),
        "leftovers": (f"{_HERE}.destroy", "List what destroyed clusters kept and cost, and delete it"),
    },
    "image": {
        "build": (f"{_HERE}.build", "Build a container image in the cloud, and push it"),
        "bake": (f"{_HERE}.images", "Bake an AMI in the cloud, or roll back to an earlier one"),
        "list": (f"{_HERE}.images", "List the AMIs: what each holds, its age, and what uses it"),
        "pin": (f"{_HERE}.images", "Pin a machine image's parent to one release of Ubuntu"),
    },
    "instance": {
        "list": (f"{_HERE}.instances", "List the known instance types: devices, memory, network, price"),
        "prices": (f"{_HERE}.instances", "List the prices of nodes per hour, each with its source"),
        "refresh-prices": (f"{_HERE}.instances", "Get current prices from AWS, and keep them"),
    },
    "plan": {
        "make": (f"{_HERE}.plan", "Plan many jobs: devices, start times, and how good that is"),
        "run": (f"{_HERE}.run_plan", "Run a plan over its clusters, and plan again when need be"),
    },
}
# Former names of commands. An old name works until version OLD_NAMES_UNTIL, is left out of help and
# completion, and prints the new one. If two lines match, the first wins.
OLD_NAMES_UNTIL = "2.0"
RENAMED: Mapping[str, str] = {
    "amis": "image list",
    "bake": "image bake",
    "build": "image build",
    "clusters": "cluster list",
    "curve": "report curve",
    "destroy": "cluster destroy",
    "empty": "cluster empty",
    "images": "image list",
    "instances": "instance list",
    "leftovers": "cluster leftovers",
    "pin": "image pin",
    "plan": "plan make",
    "prices refresh": "instance refresh-prices",
    "prices": "instance prices",
    "quota": "cluster quota",
    "report": "report page",
    "run-plan": "plan run",
    "runs": "status --all",
    "speedup": "report speedup",
    "targets": "cluster targets",
    "tensorboard": "report tensorboard",
    "upload": "cluster upload",
}


def find_renamed(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the old name at the start of `words`, and its new name; None if they start with neither."""
    for old, new in RENAMED.items():
        typed = old.split()
        rest = words[len(typed) :]
        if list(words[: len(typed)]) == typed:
            is_group = old in GROUPED and (not rest or rest[0] in (*GROUPED[old], "-h", "--help"))
            return None if is_group else (old, new)
    return None


class CommandTable(click.Group):
    """Imports a command only when it runs, so that help and completion stay fast."""

    headings = GROUPS
    prefix = ""

    @property
    def lines(self) -> dict[str, str]:
        return {name: line for names in self.headings.values() for name, (_, line) in names.items()}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(self.lines)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        file, line = next(
            (names[cmd_name] for names in self.headings.values() if cmd_name in names), ("", "")
        )
        if file:
            function = f"{self.prefix}{cmd_name}_command".replace("-", "_")
            return cast(click.Command, getattr(import_module(file), function))
        return CommandGroup(cmd_name, help=f"{line}.") if line else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.lines and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=self.lines, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.lines))
        for title, names in self.headings.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in names.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=text)
            for name, text in self.lines.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


class CommandGroup(CommandTable):
    """Holds the commands of one group, such as those of `slipway cluster`."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.headings = {"Commands": GROUPED[name]}
        self.prefix = f"{name}_"


class Program(CommandTable):
    """Is the whole command line; also accepts old names of commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if renamed := find_renamed(args):
            old, new = renamed
            if not ctx.resilient_parsing:  # completion parses the words, too
                until = f"the old name goes with version {OLD_NAMES_UNTIL}"
                say(f"`{PROGRAM} {old}` is now `{PROGRAM} {new}`; {until}")
            args = [*new.split(), *args[len(old.split()) :]]
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from slipway.jobs.cli.version import describe

        click.echo(f"{PROGRAM} {describe()}")
        context.exit()


@click.command(cls=Program, name=PROGRAM, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the installed extras, and exit.",
)
@click.option("--debug", is_flag=True, help="Show the Python traceback of a failure.")
def cli(debug: bool) -> None:
    """Build clusters for distributed training and launch jobs on them: on AWS, or entirely on this machine.

    Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage, 70 an
    internal error of Slipway, 130 interrupted.
    """


def main() -> None:
    # Python collects garbage after every 700 new objects, which takes an eighth of a dry run's time. A
    # command that follows a log for days still collects often enough.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    open_streams()
    try:
        Path.home()
    except RuntimeError:  # HOME is unset, and the system does not know the user
        os.environ["HOME"] = "/"  # as container runtimes do
    if COMPLETE_VARIABLE in os.environ:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, PROGRAM, COMPLETE_VARIABLE, os.environ[COMPLETE_VARIABLE]))
    code = run(sys.argv[1:])
    sys.exit(flush_output() or code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line to its end and return its exit code; report every failure on stderr."""
    context = None
    try:
        with cli.make_context(PROGRAM, list(arguments)) as context:
            cli.invoke(context)
    except BaseException as error:  # noqa: BLE001 - the last line of defence; end() sorts them
        return end(error, debug=bool(context and context.params["debug"]))
    return 0
