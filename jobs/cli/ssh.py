"""`slipway ssh`: opens a shell, a port or sshd of a node through Systems Manager, with no open port."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slipway.jobs.output import print_text, say

if TYPE_CHECKING:
    from slipway.jobs.clusters.machines import EnteredNodes

_KEYS = ("id_ed25519.pub", "id_rsa.pub")  # EC2 Instance Connect accepts these two kinds
_MOST_BYTES = 4096  # bytes of a key (API reference of EC2 Instance Connect)


@click.command()
@click.argument("place", metavar="JOB|CLUSTER")
@click.argument("node", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--forward",
    metavar="[LOCAL:]PORT",
    help="Port of the node to open on this machine's loopback address, until Ctrl-C: 6006, or 8080:6006.",
)
@click.option("--config", is_flag=True, help="Print an ssh config for all nodes, which VS Code takes, too.")
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Public key for --config. Default: the first of yours in ~/.ssh.",
)
@click.option("--stdio", is_flag=True, hidden=True, help="Be the ProxyCommand of --config.")
@click.option("--region", help="Region to search. Default: your own, then those of the declared clusters.")
def ssh_command(
    place: str, node: str | None, command: tuple[str, ...], region: str | None, **asked: object
) -> None:
    """Open a shell on a node of a running JOB or of a CLUSTER, or run COMMAND there.

    NODE is a number from 0 (the main node, or the login node of Slurm), a name or an instance id; by default
    0. The connection goes through Systems Manager: no port is open, and the node needs no public address. The
    exit code of COMMAND is not known. On AWS you need the session-manager-plugin on this machine.

    A job of AWS Batch runs in a container: you get a shell on its machine, and are told how to enter the
    container. SageMaker's instances cannot be entered.

    \b
    slipway ssh c6i
    slipway ssh c6i 1 -- nvidia-smi
    slipway ssh bert_pretrain --forward 6006
    slipway ssh c6i --config >> ~/.ssh/config
    """
    from slipway.jobs.cloud import sessions
    from slipway.jobs.clusters.machines import find_machines

    named = [f"--{name}" for name in ("forward", "config", "stdio") if asked[name]]
    if len(named) + bool(command) > 1:
        given = ", ".join([*named, *(["a command"] if command else [])])
        raise click.UsageError(f"Give only one of {given}.")
    ports = sessions.Forward.parse(str(asked["forward"])) if asked["forward"] else None
    key = asked["key"] if isinstance(asked["key"], Path) else None
    machines = find_machines(place, region)
    if asked["config"]:
        print_text(ssh_config(machines, place, key or _own_key()))
        return
    machine = machines.choose(node)
    if asked["stdio"]:
        text = _read_key(key or _own_key())
        sessions.send_key(machine.instance_id, machine.user, text, machines.target.region)
        sessions.enter(sessions.sshd(machine.instance_id), machines.target.region)
    say(f"node {machine.number} of {machines.of} is {machine.name} ({machine.instance_id})")
    if machines.note:
        say(machines.note)
    if ports is None:
        sessions.enter(sessions.shell(machine.instance_id, command), machines.target.region)
    say(f"127.0.0.1:{ports.local} becomes its port {ports.remote}; Ctrl-C ends that")
    sessions.enter(sessions.forward(machine.instance_id, ports), machines.target.region)


def ssh_config(machines: EnteredNodes, place: str, key: Path) -> str:
    """Return a config with which ssh, and programs that run it, reach each machine by Systems Manager."""
    _read_key(key)
    key = key.absolute()
    own, target = key.with_suffix(""), machines.target
    options = ["--stdio", "--key", str(key), "--region", target.region]
    lines: list[str] = []
    for machine in machines.listed:
        # The command names the cluster, since a job may end before its machine.
        command = _proxy(["ssh", target.name, machine.instance_id, *options])
        lines += [
            f"Host slipway-{place}-{machine.number}",
            f"  HostName {machine.instance_id}",
            f"  User {machine.user}",
            f'  IdentityFile "{_escaped(str(own if own.is_file() else key))}"',
            "  IdentitiesOnly yes",
            "  StrictHostKeyChecking accept-new",
            f"  ProxyCommand {_escaped(shlex.join(command))}",
            "",
        ]
    return "\n".join(lines)


def _proxy(words: list[str]) -> list[str]:
    """Return the command with what a program that runs ssh may lack: the yard's settings, or AWS_PROFILE."""
    from slipway.jobs.cloud import aws

    beside = Path(sys.executable).with_name("slipway")
    command = [str(beside) if beside.is_file() else "slipway", *words]
    if aws.is_in_yard():
        return ["sh", "-c", f'eval "$({shlex.quote(command[0])} yard env)" && exec {shlex.join(command)}']
    profile = os.environ.get("AWS_PROFILE")
    return ["env", f"AWS_PROFILE={profile}", *command] if profile else command


def _escaped(text: str) -> str:
    """Escape percent signs, with which tokens of ssh_config(5) begin."""
    return text.replace("%", "%%")


def _own_key() -> Path:
    from slipway.jobs.words.errors import SlipwayError

    folder = Path.home() / ".ssh"
    for name in _KEYS:
        if (folder / name).is_file():
            return folder / name
    raise SlipwayError(
        f"{folder} has no public key ({', '.join(_KEYS)}), by which a node would let you in",
        hint="make one: ssh-keygen -t ed25519; or name yours: --key FILE.pub",
    )


def _read_key(path: Path) -> str:
    from slipway.containers.runtime.named_files import read_text
    from slipway.jobs.words.errors import SlipwayError

    text = read_text(path, _MOST_BYTES).strip()
    if path.suffix != ".pub" or "\n" in text or not text.startswith(("ssh-ed25519 ", "ssh-rsa ")):
        raise SlipwayError(
            f"{path} is no public key of the kinds ED25519 and RSA, which EC2 Instance Connect takes",
            hint="give the file that ends in .pub; to make one: ssh-keygen -t ed25519",
        )
    return text
