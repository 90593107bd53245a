"""The command `slipway`. A new command is one file in a room of jobs/commands, and one line of _ROOMS."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

import click
from click.shell_completion import CompletionItem

from slipway.jobs.commands.failures import end, flush_output, open_streams

PROGRAM = "slipway"
COMPLETE_VARIABLE = "_SLIPWAY_COMPLETE"

# The rooms of commands, and what `slipway --help` says of each command; its docstring is its longer help.
_ROOMS: Mapping[str, Mapping[str, str]] = {
    "slipway.jobs.commands.clusters": {
        "clusters": "List the declared clusters: what runs, and its price per hour",
        "empty": "Delete what the bucket of a throw-away cluster holds",
        "instances": "List the instance types we know: devices, memory, network, price",
        "preflight": "Check all that a deployment needs, each with its fix",
        "targets": "List what got deployed and can be submitted to",
        "upload": "Copy files to where the jobs of a cluster may read them",
    },
    "slipway.jobs.commands.jobs": {
        "cancel": "End a job",
        "curve": "Show the loss and the throughput of a training",
        "explain": "Say in a sentence why a job is not running, or why it failed",
        "logs": "Print what the processes of a job write",
        "runs": "List what ran, and what it cost",
        "speedup": "Compare finished runs of a recipe on one node and on more",
        "status": "List the jobs that have not ended, or show one in full",
        "submit": "Run a recipe on a deployed cluster, exactly once",
    },
    "slipway.jobs.commands.images": {
        "bake": "Bake a machine image in the cloud, or go back to one from before",
        "build": "Build an image in the cloud and push it under its tag",
        "images": "List the machine images: what each holds, its age, who uses it",
    },
    "slipway.jobs.commands.estimates": {
        "calibrate": "Let a run of yours correct the estimates",
        "compare": "Compare a job on every cluster and size, by cost or time",
        "estimate": "Estimate throughput, memory, hours and dollars before paying",
        "prices": "List what nodes cost by the hour, or ask AWS for it anew",
        "report": "Write estimates and measurements as one page of HTML",
    },
    "slipway.jobs.commands": {
        "completion": "Print a script that completes commands in your shell",
    },
    "slipway.yard.commands": {
        "yard": "Run an AWS of your own on this machine: up, status, down, logs",
    },
}
COMMANDS = {name: line for commands in _ROOMS.values() for name, line in commands.items()}
MODULES = {name: f"{room}.{name}" for room, commands in _ROOMS.items() for name in commands}


class CommandTable(click.Group):
    """Commands are imported when they run, so that help and completion load none of them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, import_module(MODULES[cmd_name]).command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in sorted(COMMANDS)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=CommandTable, name=PROGRAM, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slipway", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the Python traceback of a failure.")
def cli(debug: bool) -> None:
    """Build and launch clusters for distributed training: on AWS, or all of it on this machine.

    Data goes to stdout and everything else to stderr. A command ends with 0 when it did what it was asked,
    1 when it could not, 2 when it was asked wrongly, 70 by a fault of Slipway's own, 130 when interrupted.
    """


def main() -> None:
    open_streams()
    if COMPLETE_VARIABLE in os.environ:
        sys.exit(_complete(os.environ[COMPLETE_VARIABLE]))
    code = run(sys.argv[1:])
    sys.exit(flush_output() or code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line to its end and return its exit code; whatever goes wrong is told on stderr."""
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
