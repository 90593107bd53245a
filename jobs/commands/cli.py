"""The command `slipway`. A new command is one file in jobs/commands and one line of COMMANDS."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

import click
from click.shell_completion import CompletionItem

from slipway.jobs.commands.failures import end, flush_output, open_streams

PROGRAM = "slipway"
COMPLETE_VARIABLE = "_SLIPWAY_COMPLETE"

# What `slipway --help` says of each; the command's docstring is its own, longer help.
COMMANDS = {
    "bake": "Bake a machine image in the cloud, or go back to one from before",
    "build": "Build an image in the cloud and push it under its tag",
    "cancel": "End a job",
    "calibrate": "Let a run of yours correct the estimates",
    "clusters": "List the declared clusters: what runs, and its price per hour",
    "compare": "Compare a job on every cluster and size, by cost or time",
    "completion": "Print a script that completes commands in your shell",
    "curve": "Show the loss and the throughput of a training",
    "empty": "Delete what the bucket of a throw-away cluster holds",
    "estimate": "Estimate throughput, memory, hours and dollars before paying",
    "explain": "Say in a sentence why a job is not running, or why it failed",
    "images": "List the machine images: what each holds, its age, who uses it",
    "instances": "List the instance types we know: devices, memory, network, price",
    "logs": "Print what the processes of a job write",
    "preflight": "Check all that a deployment needs, each with its fix",
    "prices": "List what nodes cost by the hour, or ask AWS for it anew",
    "report": "Write estimates and measurements as one page of HTML",
    "runs": "List what ran, and what it cost",
    "speedup": "Compare finished runs of a recipe on one node and on more",
    "status": "List the jobs that have not ended, or show one in full",
    "submit": "Run a recipe on a deployed cluster, exactly once",
    "targets": "List what got deployed and can be submitted to",
    "upload": "Copy files to where the jobs of a cluster may read them",
    "yard": "Run an AWS of your own on this machine: up, status, down, logs",
}


class CommandTable(click.Group):
    """Commands are imported when they run, so that help and completion load none of them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return cast(click.Command, import_module(f"slipway.jobs.commands.{cmd_name}").command)

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
