"""The controller of one PCS cluster: a real slurmctld on its own host in the cluster's subnet.

AWS runs it in AWS's account; the cluster's owner sees only its network interface.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.errors import going_on
from slipway.yard.machines.hosts import host_store, reconciler, service_hosts
from slipway.yard.machines.hosts.host_processes import HostCommand
from slipway.yard.machines.hosts.host_store import HostInstance
from slipway.yard.machines.hosts.planning import plain
from slipway.yard.machines.hosts.planning.plain import loopback
from slipway.yard.machines.hosts.service_hosts import ServiceHost
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.pcs import accounts, differences, slurm_conf
from slipway.yard.services.pcs.plain_conf import PlainDaemons
from slipway.yard.services.pcs.slurm_conf import FOLDER, SlurmSettings

log = logging.getLogger("yard.pcs")

# Slurm calls this program with a host list; the yard reads one node per line.
_PROGRAM = """\
#!/bin/sh
SLURM_CONF={conf} scontrol show hostnames "$1" | while read -r node; do
  echo "{word} $node"
done >{folder}/asked
"""
_WORDS = ("resume", "suspend", "failed")
# scontrol's errors if no slurmctld runs, or its settings are not written yet.
_UNHEARD = ("Unable to contact slurm controller", "Unable to establish configuration source")


class Controller:
    def __init__(self, identifier: str, name: str, region: str, given: Mapping[str, Any]) -> None:
        self.identifier, self.name, self.region = identifier, name, region
        self.secret = base64.b64encode(secrets.token_bytes(128)).decode()
        self.folder = plain.shared_folder(identifier)
        self.plain = PlainDaemons(self.folder) if differences.is_plain() else None
        self.applied = ""
        self._release = str(given["scheduler"]["version"])
        self._purge_days = accounts.purge_days(given)
        self._housing = of_user(self.folder, self.plain.user) if self.plain else of_root(self.folder)
        networking = given["networking"]
        backend = moto_backend("ec2", region)
        subnet = backend.get_subnet(networking["subnetIds"][0])
        self._interface = backend.create_network_interface(
            subnet,
            subnet.get_available_subnet_ip(name),
            group_ids=list(networking.get("securityGroupIds") or ()),
            description=f"AWS PCS controller of cluster {name}",
        )
        self._asked = -1

    @property
    def address(self) -> str:
        given = str(self._interface.private_ip_address)
        return loopback(given) if self.plain else given

    @property
    def port(self) -> int:
        return self.plain.port if self.plain else slurm_conf.PORT

    @property
    def accounts_port(self) -> int:
        return self.plain.accounts_port if self.plain else accounts.PORT

    def start(self, handle: Callable[[str, str], None]) -> None:
        """Start the host; `handle` gets Slurm's requests: a word and a node's name."""
        (self.folder / accounts.DATABASE).mkdir(parents=True)
        (self.folder / plain.RELEASE).write_text(self._release, encoding="utf-8")
        self.folder.chmod(0o700)  # it holds the key and all messages of its daemons
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(base64.b64decode(self.secret))
        os.mkfifo(self.folder / "asked", 0o600)
        for word in _WORDS:
            program = self.folder / word
            text = _PROGRAM.format(conf=self._housing.conf, word=word, folder=self._housing.folder)
            program.write_text(text)
            program.chmod(0o755)
        self._keep_accounts(self._purge_days)  # accounting starts while nodes are still made
        self._asked = os.open(self.folder / "asked", os.O_RDWR)
        threading.Thread(target=self._listen, args=(handle,), name=f"slurm {self.name}", daemon=True).start()
        service_hosts.add(
            ServiceHost(
                instance=self._instance(),
                steps=self._housing.steps,
                units=self._housing.units,
                mounts=self._housing.mounts,
            )
        )
        reconciler.wake_if_kept()

    def apply(self, settings: SlurmSettings) -> None:
        """Let slurmctld run with these settings."""
        for name in slurm_conf.left_out(settings.settings):
            log.warning("%s: Debian's Slurm has no setting %s, so it is ignored", self.name, name)
        conf = slurm_conf.slurm_conf(settings, self.plain)
        gres = slurm_conf.gres_conf(settings.groups)
        self._keep_accounts(settings.purge_days)
        if self.plain:
            self.plain.write_programs(settings.settings.get("Prolog"))
        (self.folder / "gres.conf").write_text(gres, encoding="utf-8")
        (self.folder / "slurm.conf.new").write_text(conf, encoding="utf-8")
        (self.folder / "slurm.conf.new").rename(self.folder / "slurm.conf")
        if self.applied:  # adding nodes needs a restart (slurm.conf(5) of 22.05)
            self.ask("sh", "-c", _END, self._housing.process)
        self.applied = conf + gres

    def differs(self, settings: SlurmSettings) -> bool:
        """Return True if slurmctld does not run with these settings."""
        wanted = slurm_conf.slurm_conf(settings, self.plain) + slurm_conf.gres_conf(settings.groups)
        return (wanted, settings.purge_days) != (self.applied, self._purge_days)

    def is_there(self) -> bool:
        """Return True if the host runs, so that slurmctld can be reached; restart a dead host."""
        host = host_store.hosts.get(self._interface.id)
        if host is not None and host.state == "dead":
            reconciler.start_again(self._interface.id)
        return host is not None and host.state == "running"

    def is_up(self) -> bool:
        return "is UP" in self.ask("scontrol", "ping")

    def introduce(self, node: str, instance: Any) -> bool:
        """Tell Slurm a node's address; return True if the node counts as joined because it has no agent."""
        if self.plain is None:
            self.update_node(node, nodeaddr=instance.private_ip, nodehostname=node)
            return False
        (self.folder / plain.NODES / instance.id).write_text(f"{node}\n", encoding="utf-8")
        return True

    def update_node(self, node: str, **changes: str) -> bool:
        """Change a node in Slurm; return False if slurmctld was not reached."""
        if not self.is_there():
            return False
        words = (f"{name}={value}" for name, value in changes.items())
        output = self.ask("scontrol", "update", f"nodename={node}", *words).strip()
        if output:
            log.info("slurm of %s says of node %s: %s", self.name, node, output)
        return not any(words in output for words in _UNHEARD)

    def ask(self, *argv: str) -> str:
        """Run a command on the controller's host, and return its output; "" if there is no host yet."""
        host = host_store.hosts.get(self._interface.id)
        if host is None or host.state != "running" or host.link is None:
            return ""
        reading, writing = os.pipe()
        command = HostCommand(argv=argv, environment={"SLURM_CONF": self._housing.conf})
        host.link.command(f"pcs-{secrets.token_hex(4)}", command, (writing, writing))
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
            return output.read()

    def stop(self) -> None:
        service_hosts.remove(self._interface.id)
        if self._asked >= 0:
            os.write(self._asked, b"end -\n")
        moto_backend("ec2", self.region).enis.pop(self._interface.id, None)
        reconciler.wake_if_kept()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _keep_accounts(self, days: int | None) -> None:
        """Write slurmdbd's settings; restart a running one after a change."""
        self._purge_days = days
        if days is None:
            return
        text = accounts.slurmdbd_conf(
            days,
            folder=self._housing.folder,
            user=self.plain.user if self.plain else "root",
            port=self.accounts_port,
            auth=f"socket={self.folder}/munge" if self.plain else "",
        )
        path = self.folder / accounts.CONF
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
        new = path.with_suffix(".new")
        new.touch(mode=0o600)  # slurmdbd requires that only its user can read it
        new.write_text(text, encoding="utf-8")
        new.rename(path)
        self.ask("sh", "-c", _END, f"{self._housing.folder}/{accounts.PROCESS}")

    def _listen(self, handle: Callable[[str, str], None]) -> None:
        with os.fdopen(self._asked, encoding="utf-8") as asked:
            for line in asked:
                event, _, node = line.strip().partition(" ")
                if event == "end":
                    return
                with going_on(log, "cannot %s node %s", event, node):
                    handle(event, node)

    def _instance(self) -> HostInstance:
        subnet = self._interface.subnet
        vpc = moto_backend("ec2", self.region).vpcs[subnet.vpc_id]
        return HostInstance(
            id=self._interface.id,
            region=self.region,
            group="",
            cluster=self.name,
            vpc=subnet.vpc_id,
            subnet=subnet.id,
            address=self.address,
            prefix_length=ipaddress.ip_network(vpc.cidr_block).prefixlen,
            hostname=f"{slurm_conf.host_name(self.name)}.pcs.internal",
            image="",
            instance_type="",
            life_cycle="on-demand",
            zone=subnet.availability_zone,
            user_data="",
            profile_arn="",
            role="",
            launched_at=datetime.now(UTC).isoformat(),
            key_name="",
            tags={slurm.CLUSTER_TAG: self.identifier},
            is_service=True,
        )


# A controller is a host of its own, or without root, processes of this user.
_AS_MUNGE = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups")
_STEPS = (
    *(
        ("install", "-d", "-o", "munge", "-g", "munge", "-m", "755", f"/{path}/munge")
        for path in ("run", "var/log", "var/lib")
    ),
    ("install", "-o", "munge", "-g", "munge", "-m", "400", f"{FOLDER}/munge.key", "/etc/munge/munge.key"),
    ("rm", "-f", "/etc/slurm/slurm.conf"),
    # Nodes without an instance cannot be resolved, and slurmctld would wait ten seconds for each.
    ("sed", "-i", "s/^hosts:.*/hosts: files/", "/etc/nsswitch.conf"),
)
# slurmctld is restarted often, whenever its nodes change, so there is no growing pause between restarts.
_FOREVER = "until [ -s {conf} ]; do sleep 0.1; done; while :; do slurmctld -D -f {conf}; sleep 0.2; done"
_END = 'kill $(cat "$0"); rm -f "$0"'
_MUNGED = ("munged", "--foreground", "--num-threads=2")
# --force: munged requires a socket that all users can reach, but only this user may use this one.
_OF_ONE_USER = ("--force", "--key-file=munge.key", "--socket=munge", "--pid-file=munge.pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housing:
    """The parts of the controller's host."""

    folder: str  # the host's path of the folder that the yard, Slurm and its nodes share
    process: str  # slurmctld's pid file
    steps: Sequence[Sequence[str]]
    units: Sequence[Mapping[str, Any]]
    mounts: Sequence[tuple[str, str]]

    @property
    def conf(self) -> str:
        return f"{self.folder}/slurm.conf"


def of_root(folder: Path) -> Housing:
    """Return the housing on a host with its own network, users and files."""
    return Housing(
        folder=FOLDER,
        process="/run/slurmctld.pid",
        steps=_STEPS,
        units=_units((*_AS_MUNGE, *_MUNGED), FOLDER, "root"),
        mounts=((str(folder), FOLDER),),
    )


def of_user(folder: Path, user: str) -> Housing:
    """Return the housing beside its nodes, as processes of one user on this machine."""
    more = ("--log-file=munge.log", "--seed-file=munge.seed")
    munged = [word.replace("=", f"={folder}/") for word in (*_OF_ONE_USER, *more)]
    return Housing(
        folder=str(folder),
        process=f"{folder}/slurmctld.pid",
        steps=(),
        units=_units((*_MUNGED, *munged), str(folder), user),
        mounts=(),
    )


def _units(munged: Sequence[str], folder: str, user: str) -> Sequence[Mapping[str, Any]]:
    return (
        {"name": "munge.service", "argv": tuple(munged)},
        *accounts.units(folder, user),
        {"name": "slurmctld.service", "argv": ("sh", "-c", _FOREVER.format(conf=f"{folder}/slurm.conf"))},
    )
