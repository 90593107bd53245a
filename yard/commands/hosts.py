"""`slipway yard hosts`, `ssh` and `reboot`: list the hosts, enter and restart one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

import click

from slipway.jobs.output import Column, json_option, print_table, say, warn
from slipway.jobs.words.errors import SlipwayError
from slipway.yard.commands.asking import ask

HOSTS = (
    Column(name="name", title="host"),
    Column(name="address"),
    Column(name="cluster"),
    Column(name="state"),
    Column(name="root", title="files"),
    Column(name="boot"),
    Column(name="firewall"),
    Column(name="instance"),
    Column(name="why", absent=""),
)


@click.command()
@json_option
def hosts(as_json: bool) -> None:
    """List the hosts. Each is an instance of an Auto Scaling group, with its own network and files."""
    print_table("hosts", HOSTS, ask("GET", "/hosts"), as_json=as_json)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(host: str, command: tuple[str, ...]) -> None:
    """Open a root shell on HOST, or run a command there.

    HOST is a host's name, instance id or address, or an unambiguous prefix of its name or instance id.
    Like Session Manager, this bypasses security groups; ssh between hosts does not.

    \b
    slipway yard ssh ip-10-30-0-4
    slipway yard ssh ip-10-30-0-4 -- cat /etc/slipway/hostfile
    """
    from slipway.yard.machines.hosts import enter

    if shutil.which("nsenter") is None:
        raise SlipwayError("this machine has no nsenter program", hint="install util-linux")
    target = ask("POST", "/enter-host", {"host": host})
    argv = enter.enter_command(target, command).argv
    warn_of_plain(target)
    os.execvpe(argv[0], argv, enter.environment(target["environment"], os.environ))  # noqa: S606 - no shell


def warn_of_plain(target: Mapping[str, Any]) -> None:
    """Warn before a command runs on a host that is not isolated."""
    if target["tier"] == "plain":
        warn(f"{target['name']} is not isolated: this runs on your machine, as you, with your files")


@click.command()
@click.argument("host")
def reboot(host: str) -> None:
    """Reboot HOST, as RebootInstances and `systemctl reboot` do.

    Its disk stays as it is, its memory does not; cloud-init runs user data at the first boot only.
    """
    name = ask("POST", "/reboot-host", {"host": host})
    say(f"host {name} reboots; follow it with: slipway yard logs --follow")
