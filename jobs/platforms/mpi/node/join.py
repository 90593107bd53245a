"""`slipway-node join`: this machine becomes a node that the others trust, and that has jobs' folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from slipway.jobs.cloud.aws import reader
from slipway.jobs.platforms.mpi.node.instance import read_instance
from slipway.jobs.platforms.mpi.node.job_credentials import close_metadata, hand_out
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.node.ssh_trust import User, cluster_user, establish
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.mpi.mpi_nodes import host_name

_SHARED = ("slipway", "data", "checkpoints", "logs")
_SYSTEMD_SECONDS = 60.0  # joining is tried again
_UNITS = ("ssh.service", "sshd.service")  # Debian's and Amazon Linux's name


class NotWhole(SlipwayError):
    """The machine lacks what a job would rely on."""


def join(where: NodePaths, setup: Setup) -> None:
    refuse_unshared_files(where, setup.file_system_mount)
    own = read_instance()
    answer = reader("secretsmanager", setup.region).get_secret_value(SecretId=setup.secret_arn)
    user = cluster_user()
    has_own_user = user.uid != os.geteuid()  # else nothing can be kept from jobs
    if has_own_user:
        close_metadata()
    establish(where, answer["SecretString"], [host_name(own.address), own.address], user)
    _make_folders(where, setup, user)
    if has_own_user:
        hand_out(where, setup, user)
    reload_sshd(where)
    where.joined.parent.mkdir(parents=True, exist_ok=True)
    where.joined.touch()


def refuse_unshared_files(where: NodePaths, mount: str | None) -> None:
    """Refuse to join where the shared files are a folder of this machine: jobs would lose what they wrote."""
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
        if known:
            _start_sshd(known[0])
        return
    with suppress(OSError, ValueError):
        os.kill(int((where.root / "run/sshd.pid").read_text()), signal.SIGHUP)


def _start_sshd(unit: str) -> None:
    """Start sshd, which after a reboot has failed: its key lay in memory until this node joined again."""
    _systemctl("reset-failed", unit)  # or its start limit refuses another try
    if _systemctl("reload-or-restart", unit) != 0:
        raise NotWhole(
            f"{unit} does not start, so no job can reach this node", hint=f"systemctl status {unit}"
        )


def _make_folders(where: NodePaths, setup: Setup, user: User) -> None:
    mount = setup.file_system_mount
    for folder in (where.run, *([Path(mount) / name for name in _SHARED] if mount else [])):
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                shutil.chown(folder, user.uid, user.gid)


def _systemctl(*words: str) -> int:
    ran = subprocess.run(["systemctl", *words], capture_output=True, check=False, timeout=_SYSTEMD_SECONDS)
    return ran.returncode
