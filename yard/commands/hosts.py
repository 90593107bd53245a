"""`slipway yard hosts` and `slipway yard ssh`: the machines of this yard, and the way into one."""

from __future__ import annotations

import os
import shutil

import click

from slipway.jobs.commands.output import Column, json_option, print_table, warn
from slipway.jobs.core.errors import SlipwayError

HOSTS = (
    Column(name="name", title="host"),
    Column(name="address"),
    Column(name="cluster"),
    Column(name="state"),
    Column(name="root", title="files"),
    Column(name="firewall"),
    Column(name="instance"),
    Column(name="why", absent=""),
)


@click.command()
@json_option
def hosts(as_json: bool) -> None:
    """List the hosts: each is an instance of an Auto Scaling group, with a network and files of its own."""
    from slipway.yard import process
    from slipway.yard.endpoint import control

    print_table("hosts", HOSTS, control(process.required(), "GET", "/hosts"), as_json=as_json)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("host")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def ssh(host: str, words: tuple[str, ...]) -> None:
    """Enter HOST (its name, instance or address, or the beginning of one) as root, or run a command there.

    It enters as Session Manager would, past every security group; ssh between hosts is another matter.

    \\b
    slipway yard ssh ip-10-30-0-4
    slipway yard ssh ip-10-30-0-4 -- cat /etc/slipway/hostfile
    """
    from slipway.yard import process
    from slipway.yard.endpoint import control
    from slipway.yard.machines.hosts import enter

    if shutil.which("nsenter") is None:
        raise SlipwayError("nsenter is not on this machine", hint="install util-linux")
    door = control(process.required(), "POST", "/enter-host", {"host": host})
    argv = enter.entry(door, words).argv
    if door["tier"] == "plain":
        warn(f"{door['name']} is no machine of its own: this runs on your machine, as you, among your files")
    os.execvpe(argv[0], argv, enter.environment(door["environment"], os.environ))  # noqa: S606 - no shell
