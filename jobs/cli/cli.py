"""The command `slipway`. A new command is a function NAME_command in a file here, and a line of GROUPS."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

import click
from click.shell_completion import CompletionItem

from slipway.jobs.cli.failures import end, flush_output, open_streams
from slipway.jobs.words.errors import SlipwayError

PROGRAM = "slipway"
COMPLETE_VARIABLE = "_SLIPWAY_COMPLETE"
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

_HERE = "slipway.jobs.cli"
# Every command under its heading of `slipway --help`, in the order in which one needs it: its file, and what
# is said of it there; its docstring is its longer help.
GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Start here": {
        "init": (f"{_HERE}.project", "Begin a project of your own: clusters and a training script"),
        "yard": (
            "slipway.yard.commands.yard",
            "Run an AWS of your own on this machine: up, status, down, logs",
        ),
        "preflight": (
            f"{_HERE}.preflight",
            "Check everything a deployment needs, with a fix for each problem",
        ),
        "quota": (f"{_HERE}.preflight", "Show the vCPU quotas that a cluster needs, or request them"),
    },
    "Jobs": {
        "run": (f"{_HERE}.submit", "Run your own command in your own folder on a deployed cluster"),
        "submit": (f"{_HERE}.submit", "Submit a recipe to a deployed cluster, exactly once"),
        "recipes": (f"{_HERE}.submit", "List the recipes that can be submitted, and their settings"),
        "status": (f"{_HERE}.jobs", "List unfinished jobs, or show one job in full"),
        "logs": (f"{_HERE}.jobs", "Print the logs of a job, while it runs or afterwards"),
        "explain": (f"{_HERE}.jobs", "Explain in one sentence why a job is not running, or failed"),
        "cancel": (f"{_HERE}.jobs", "Cancel a job"),
        "runs": (f"{_HERE}.jobs", "List past and present jobs, and their cost"),
        "curve": (f"{_HERE}.curves", "Show the loss and the throughput of a training job"),
        "speedup": (f"{_HERE}.curves", "Compare finished runs of a recipe on one node and on more"),
        "tensorboard": (f"{_HERE}.curves", "Show the charts of a training job in a browser"),
    },
    "Clusters": {
        "clusters": (f"{_HERE}.clusters", "List the declared clusters: state, nodes, and price per hour"),
        "targets": (f"{_HERE}.clusters", "List the deployed clusters that accept jobs"),
        "upload": (f"{_HERE}.clusters", "Copy files into a cluster's bucket, for its jobs to read"),
        "empty": (f"{_HERE}.destroy", "Delete everything in the bucket of a throw-away cluster"),
        "destroy": (f"{_HERE}.destroy", "Destroy a cluster after its jobs have ended, and say what stays"),
        "leftovers": (f"{_HERE}.destroy", "List what destroyed clusters kept and cost, and delete it"),
    },
    "Time and cost, before you pay": {
        "estimate": (f"{_HERE}.estimate", "Estimate throughput, memory, hours and dollars before you pay"),
        "compare": (f"{_HERE}.compare", "Compare a job on every cluster and size, by cost or time"),
        "calibrate": (f"{_HERE}.calibrate", "Correct the estimates with a run of your own"),
        "instances": (f"{_HERE}.preflight", "List the known instance types: devices, memory, network, price"),
        "prices": (f"{_HERE}.calibrate", "List the prices of nodes per hour, or refresh them from AWS"),
        "report": (f"{_HERE}.report", "Write estimates and measurements as one HTML page"),
        "plan": (f"{_HERE}.plan", "Plan many jobs at once: devices, start times, and how good that is"),
        "run-plan": (f"{_HERE}.run_plan", "Run a plan over its clusters, and plan again when need be"),
    },
    "Images": {
        "build": (f"{_HERE}.build", "Build a container image in the cloud, and push it"),
        "bake": (f"{_HERE}.images", "Bake an AMI in the cloud, or roll back to an earlier one"),
        "amis": (f"{_HERE}.images", "List the AMIs: what each holds, its age, and what uses it"),
        "pin": (f"{_HERE}.images", "Pin a machine image's parent to one release of Ubuntu"),
    },
    "Your shell": {
        "completion": (f"{_HERE}.project", "Print the script for tab completion in your shell"),
    },
}
COMMANDS = {name: line for commands in GROUPS.values() for name, (_, line) in commands.items()}
MODULES = {name: file for commands in GROUPS.values() for name, (file, _) in commands.items()}
RENAMED: Mapping[str, str] = {
    "images": "slipway amis lists AMIs; slipway build builds container images",
}


class RenamedCommand(SlipwayError):
    """Somebody used the name that a command had before."""

    exit_code = 2


class CommandTable(click.Group):
    """Import a command only when it runs, so that help and completion stay fast."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        function = f"{cmd_name.replace('-', '_')}_command"
        return cast(click.Command, getattr(import_module(MODULES[cmd_name]), function))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in RENAMED:
            raise RenamedCommand(f"there is no command '{args[0]}'", hint=RENAMED[args[0]])
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _print_version(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from slipway.jobs.cli.version import describe

        click.echo(f"{PROGRAM} {describe()}")
        context.exit()


@click.command(cls=CommandTable, name=PROGRAM, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, the commit and the installed extras, and exit.",
)
@click.option("--debug", is_flag=True, help="Show the Python traceback of a failure.")
def cli(debug: bool) -> None:
    """Build clusters for distributed training and launch jobs on them: on AWS, or entirely on this machine.

    Data goes to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage, 70 an
    internal error of Slipway, 130 interrupted.
    """


def main() -> None:
    # Python looks for garbage after every 700 new objects, which takes an eighth of a dry run. A command
    # that follows a log for days looks often enough.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    open_streams()
    if COMPLETE_VARIABLE in os.environ:
        sys.exit(_complete(os.environ[COMPLETE_VARIABLE]))
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


def _complete(instruction: str) -> int:
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
