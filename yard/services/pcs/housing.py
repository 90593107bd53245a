"""What a controller is made of: with root a host of its own, without it processes of this user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.yard.services.pcs.slurm_conf import FOLDER

_AS_MUNGE = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups")
_STEPS = (
    *(
        ("install", "-d", "-o", "munge", "-g", "munge", "-m", "755", f"/{path}/munge")
        for path in ("run", "var/log", "var/lib")
    ),
    ("install", "-o", "munge", "-g", "munge", "-m", "400", f"{FOLDER}/munge.key", "/etc/munge/munge.key"),
    ("rm", "-f", "/etc/slurm/slurm.conf"),
    # Nodes without an instance have no name, and slurmctld asks ten seconds for one that may come later.
    ("sed", "-i", "s/^hosts:.*/hosts: files/", "/etc/nsswitch.conf"),
)
# slurmctld is restarted where its nodes change, and so often that nobody may wait longer each time.
_FOREVER = "until [ -s {conf} ]; do sleep 0.1; done; while :; do slurmctld -D -f {conf}; sleep 0.2; done"
_MUNGED = ("munged", "--foreground", "--num-threads=2")
# Nobody else may use the socket, though munged wants that everybody can: its folder is this user's.
_OF_ONE_USER = ("--force", "--key-file=munge.key", "--socket=munge", "--pid-file=munge.pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Housing:
    """Holds what the controller's host is made of."""

    folder: str  # what the host calls the folder that the yard, Slurm and its nodes share
    process: str  # the file with the number of slurmctld's process
    steps: Sequence[Sequence[str]]
    units: Sequence[Mapping[str, Any]]
    mounts: Sequence[tuple[str, str]]

    @property
    def conf(self) -> str:
        return f"{self.folder}/slurm.conf"


def of_root(folder: Path) -> Housing:
    """House it on a host with a network, users and files of its own."""
    return Housing(
        folder=FOLDER,
        process="/run/slurmctld.pid",
        steps=_STEPS,
        units=_units((*_AS_MUNGE, *_MUNGED), f"{FOLDER}/slurm.conf"),
        mounts=((str(folder), FOLDER),),
    )


def of_user(folder: Path) -> Housing:
    """House it beside its nodes, as processes of one user on this machine."""
    more = ("--log-file=munge.log", "--seed-file=munge.seed")
    munged = [word.replace("=", f"={folder}/") for word in (*_OF_ONE_USER, *more)]
    return Housing(
        folder=str(folder),
        process=f"{folder}/slurmctld.pid",
        steps=(),
        units=_units((*_MUNGED, *munged), f"{folder}/slurm.conf"),
        mounts=(),
    )


def _units(munged: Sequence[str], conf: str) -> Sequence[Mapping[str, Any]]:
    return (
        {"name": "munge.service", "argv": tuple(munged)},
        {"name": "slurmctld.service", "argv": ("sh", "-c", _FOREVER.format(conf=conf))},
    )
