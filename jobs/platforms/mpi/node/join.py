"""`slipway-node join`: makes this machine a node that the others trust, with the folders that jobs need."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.platforms.mpi.node.instance import read_instance
from slipway.jobs.platforms.mpi.node.job_credentials import close_metadata, hand_out
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.node.ssh_trust import cluster_user, establish
from slipway.jobs.platforms.on_nodes import write_through, write_whole
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.mpi import (
    READY_KEY,
    Member,
    Readiness,
    decode_readiness,
    encode_readiness,
    has_answered,
    host_name,
    take_back,
)

_SHARED = ("slipway", "data", "checkpoints", "logs")
_SYSTEMD_SECONDS = 60.0  # joining is tried again after it
_UNITS = ("ssh.service", "sshd.service")  # Debian's and Amazon Linux's name


class NotWhole(SlipwayError):
    """The machine lacks something that jobs rely on."""


def join(where: NodePaths, setup: Setup) -> None:
    refuse_unshared_files(where, setup.file_system_mount)
    own = read_instance()
    answer = reader("secretsmanager", setup.region).get_secret_value(SecretId=setup.secret_arn)
    user = cluster_user()
    if user.uid != os.geteuid():  # otherwise nothing can be kept from jobs
        close_metadata()
    establish(where, answer["SecretString"], [host_name(own.address), own.address], user)
    mount = setup.file_system_mount
    folders = [where.run, *([Path(mount) / name for name in _SHARED] if mount else [])]
    for folder in (each for each in folders if not each.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(folder, user.uid, user.gid)
    hand_out(where, setup, user)
    reload_sshd(where)
    where.joined.parent.mkdir(parents=True, exist_ok=True)
    where.joined.touch()


def refuse_unshared_files(where: NodePaths, mount: str | None) -> None:
    """Refuse to join if the shared files are a folder of this machine: jobs would lose what they write."""
    if mount is None or not where.is_machine or os.path.ismount(mount):
        return
    raise NotWhole(
        f"the shared files of this cluster are not mounted at {mount}, so this node does not join",
        hint="systemctl status slipway-boot says why; the node ends itself if it does not join in time",
    )


def reload_sshd(where: NodePaths) -> None:
    """Make sshd read keys and certificates again."""
    if where.is_machine and Path("/run/systemd/system").is_dir():
        known = [unit for unit in _UNITS if _systemctl("cat", unit) == 0]
        if not known:
            return
        # It failed at a reboot, for its key was in memory until this node joined again, and its start limit
        # would refuse another try.
        _systemctl("reset-failed", known[0])
        if _systemctl("reload-or-restart", known[0]) != 0:
            raise NotWhole(
                f"{known[0]} does not start, so no job can reach this node",
                hint=f"systemctl status {known[0]}",
            )
        return
    with suppress(OSError, ValueError):
        os.kill(int((where.root / "run/sshd.pid").read_text()), signal.SIGHUP)


def _systemctl(*words: str) -> int:
    ran = subprocess.run(["systemctl", *words], capture_output=True, check=False, timeout=_SYSTEMD_SECONDS)
    return ran.returncode


# The cluster's current nodes, in the files that mpirun, ssh and name lookups read.
_BEGIN, _END = "# slipway: nodes of the cluster, kept current", "# slipway: end"
_BLOCK = re.compile(rf"{re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n", re.DOTALL)


def write_roster(where: NodePaths, members: Sequence[Member]) -> bool:
    """Write the files that name the nodes; return True if the cluster has changed."""
    hosts = where.hosts.read_text(encoding="utf-8") if where.hosts.exists() else ""
    write_through(where.hosts, hosts_text(hosts, members))
    # HostKeyAlias: the machine at the address must still prove that it has the name.
    blocks = (
        f"Host {each.name}\n  HostName {each.address}\n  HostKeyAlias {each.name}\n" for each in members
    )
    write_whole(where.host_addresses, "".join(blocks))
    return write_whole(where.hostfile, "".join(f"{each.name}\n" for each in members))


def hosts_text(text: str, members: Sequence[Member]) -> str:
    """Replace our block of /etc/hosts and keep the rest. gloo looks up IPv4 addresses in IPv6 notation."""
    lines = [f"{prefix}{each.address} {each.name}" for each in members for prefix in ("", "::ffff:")]
    block = "".join(f"{line}\n" for line in (_BEGIN, *lines, _END))
    if _BLOCK.search(text):
        return _BLOCK.sub(lambda _: block, text, count=1)
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{block}"


# The cluster's readiness, a record in its bucket: the main node writes it, and a node withdraws its own
# answer. A restarted node is the same instance, and without that its old answer would count while it is down.
# If two restart at once, one withdrawal may be overwritten; the main node then finds no sshd there.
STOPS = "it shuts down or restarts"
STARTED = "it has just started, and has not been asked yet"


def read_record(setup: Setup) -> Readiness | None:
    answer = find_object(reader("s3", setup.region), "GetObject", Bucket=setup.bucket, Key=READY_KEY)
    return decode_readiness(answer["Body"].read().decode()) if answer else None


def write_record(setup: Setup, readiness: Readiness) -> None:
    client("s3", setup.region).put_object(
        Bucket=setup.bucket, Key=READY_KEY, Body=encode_readiness(readiness), ContentType="application/json"
    )


def take_back_answer(setup: Setup, instance_id: str, why: str) -> None:
    """Withdraw this node's answer, so that the node does not count until the main node has asked it again."""
    record = read_record(setup)
    if record and has_answered(record, instance_id):
        write_record(setup, take_back(record, instance_id, why))
