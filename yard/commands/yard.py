"""`slipway yard`: an AWS on this machine. A subcommand is a function here; package yard does its work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from io import BufferedReader, TextIOWrapper
from typing import Any, TextIO

import click

from slipway.containers.runtime.named_files import open_regular
from slipway.jobs.output import (
    Column,
    json_option,
    print_json,
    print_record,
    print_table,
    print_text,
    say,
)
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.commands import account, faults, hosts
from slipway.yard.commands.asking import ask, running_yard

FOLLOW_POLL_S = 0.3
# A copy of the list in environment.py, so that help and completion need not load it. A test compares them.
SHELLS = ("sh", "fish")

STATUS = (
    Column(name="endpoint"),
    Column(name="pid"),
    Column(name="uptime_s", title="up for", unit="s"),
    Column(name="memory_mib", title="memory", unit="MiB"),
)
STACKS = (Column(name="name", title="stack"), Column(name="region"), Column(name="status"))
# The lists of names that `status` prints, with their titles: LISTS before the resource types, LIMITS after
# them.
LISTS = {
    "stand_ins": "stand-ins for what a real account gets by other means",
    "not_judged": "allowed without a look at policies, or parts of policies that are not looked at",
    "batch_jobs": "AWS Batch jobs (real processes on this machine)",
    "bakes": "AMI bakes (run on this machine)",
    "slurm": "AWS PCS clusters (a real Slurm)",
    "training_jobs": "SageMaker training jobs",
    "undelivered": "messages that a topic's policy refused",
    "hosts": "hosts (instances of Auto Scaling groups)",
}
TYPES = (Column(name="name", title="resource type"), Column(name="fidelity", title="fidelity"))
LIMITS = {
    "less_than_aws": "answered, but does less than on AWS",
    "refused": "calls refused because nothing would run",
}


@click.group()
def yard_command() -> None:
    """Run the yard: an AWS on this machine, without an AWS account.

    \b
    slipway yard up
    eval "$(slipway yard env)"      # AWS tools in this shell now talk to the yard
    cdk deploy --all
    slipway yard down               # stops the yard and deletes everything in it
    """


@yard_command.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port to listen on; fail if it is taken  [default: first free port from 5566]",
)
@click.option(
    "--chaos",
    metavar="SEED",
    help="Switch on all faults, drawn at random from this seed. `slipway yard faults` lists them.",
)
@click.option(
    "--fault",
    "fault_words",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Switch on one fault; NAME=0 excludes one from --chaos. Repeatable.",
)
@click.option(
    "--caller-role",
    metavar="NAME",
    help="Limit your own calls to the policies of this role (name or ARN); 'administrator' lifts the limit.",
)
def up(port: int | None, chaos: str | None, fault_words: tuple[str, ...], caller_role: str | None) -> None:
    """Start the yard, unless it is already up.

    A job starts when this machine has enough free memory for it. To give all jobs together a fixed amount
    instead, set SLIPWAY_YARD_MEMORY_MIB before the yard starts.

    To stop the yard when a process (here: this shell) exits: SLIPWAY_YARD_UNTIL_EXIT_OF=$$ slipway yard up
    """
    from slipway.yard import process

    chosen = faults.chosen(chaos, fault_words)
    found = process.up(port, faults=chosen)
    if found.died:
        say(f"the last yard is gone: {found.died}")
    say(f"the yard is {'already up' if found.was_up else 'up'} at {found.state.endpoint}")
    if chosen:
        say(faults.summary(chosen))
    if caller_role:
        account.limit_caller(caller_role)
    say('point AWS tools at it: eval "$(slipway yard env)"')


@yard_command.command()
def down() -> None:
    """Stop the yard and delete everything in it."""
    from slipway.yard import process

    stopped = process.down()
    say(
        f"the yard at {stopped.endpoint} is down"
        if stopped
        else "the yard was not up; no files of it are left"
    )


@yard_command.command(short_help="Show the yard's endpoint, stacks and how far to trust it.")
@json_option
def status(as_json: bool) -> None:
    """Show the yard's endpoint, its stacks, and how faithfully it emulates each resource type."""
    found: dict[str, Any] = {"endpoint": running_yard().endpoint, **ask("GET", "/status")}
    if as_json:
        from slipway.yard.services import fidelity

        print_json({**found, "calls": fidelity.calls()})
        return
    print_record(STATUS, found, as_json=False)
    print_table("stacks", STACKS, found["stacks"], as_json=False)
    served = [*found["own_services"], *found["own_operations"]]
    _print_named("service or operation that Slipway serves itself", served)
    for name, title in LISTS.items():
        _print_named(title, found[name])
    types = [{"name": name, "fidelity": fidelity} for name, fidelity in found["resource_types"].items()]
    print_table("", TYPES, types, as_json=False)
    for name, title in LIMITS.items():
        _print_named(title, found[name])


@yard_command.command(short_help="Print the yard's log: requests, and tracebacks of crashes.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the yard stops or you press Ctrl-C.")
def logs(follow: bool) -> None:
    """Print the yard's log: every request with its status, and the traceback of every crash."""
    from slipway.yard.state import LOG_FILE, home

    try:
        with TextIOWrapper(
            BufferedReader(open_regular(home() / LOG_FILE)), encoding="utf-8", errors="replace"
        ) as log:
            for text in _log_texts(log, follow):
                print_text(text)
    except FileNotFoundError:
        raise SlipwayError("the yard is not up, so it has no log", hint="start it: slipway yard up") from None


@yard_command.command(short_help="Print the variables that point AWS tools at the yard.")
@click.option(
    "--shell",
    type=click.Choice(SHELLS),
    default="sh",
    show_default=True,
    help="Shell syntax; use sh for bash and zsh.",
)
def env(shell: str) -> None:
    """Print the variables that point AWS tools at the yard: `eval "$(slipway yard env)"`."""
    from slipway.yard.environment import script

    print_text(script(shell, running_yard(), os.environ))


@yard_command.command(name="kill-node", short_help="Kill a host, or a node of a running job.")
@click.argument("name")
@click.argument("node", type=click.IntRange(0), required=False)
def kill_node(name: str, node: int | None) -> None:
    """Kill the host NAME, or node NODE of the running job NAME, as a power failure would.

    NAME is a host's name, instance id or address, or a job's id or name; an unambiguous prefix will do.
    Processes there get no signal to react to. The Auto Scaling group of a host starts a replacement.
    SageMaker starts a training job again as often as its retry strategy says. NAME may also be the number or
    the name of a Slurm job.
    """
    if node is None:
        try:
            host = ask("POST", "/kill-host", {"host": name})
        except SlipwayError as error:
            raise SlipwayError(
                str(error), hint=error.hint or f"for a node of a job: slipway yard kill-node {name} 1"
            ) from None
        say(f"killed host {host}")
        return
    job = ask("POST", "/kill-node", {"job": name, "node": node})
    say(f"killed node {node} of job {job}")


@yard_command.command(short_help="Let EC2 take a Spot instance back, two minutes from now.")
@click.argument("name")
@click.option("--training-job", is_flag=True, help="NAME is a managed Spot training job of SageMaker.")
def interrupt(name: str, training_job: bool) -> None:
    """Let EC2 reclaim the Spot instance of host NAME, after two minutes' notice.

    The notice is in the instance's metadata and goes to EventBridge. A job that trains there saves and
    ends, to be resumed elsewhere; the instance's Auto Scaling group starts a replacement. SageMaker
    starts a training job again, with the checkpoints that it has in S3.
    """
    if training_job:
        ask("POST", "/interrupt-training", {"job": name})
        say(f"reclaimed the Spot instances of training job {name}")
        return
    said = ask("POST", "/interrupt-host", {"host": name})
    say(f"gave notice of a Spot interruption: {said}")


yard_command.add_command(hosts.hosts)
yard_command.add_command(hosts.ssh)
yard_command.add_command(account.stand_in)
yard_command.add_command(account.grant_quota)
yard_command.add_command(hosts.reboot)
yard_command.add_command(faults.faults)
yard_command.add_command(account.mail)
yard_command.add_command(account.denied)
yard_command.add_command(account.permissions)


def _print_named(title: str, names: list[str]) -> None:
    print_table("", (Column(name="name", title=title),), [{"name": name} for name in names], as_json=False)


def _log_texts(log: TextIO, follow: bool) -> Iterator[str]:
    from slipway.yard import process

    while True:
        is_up = process.running() is not None
        if text := log.read():
            yield text
        if not follow or not is_up:
            return
        time.sleep(FOLLOW_POLL_S)
