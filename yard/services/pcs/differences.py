"""How a PCS cluster of the yard differs from one on AWS. `slipway yard status` prints it."""

from __future__ import annotations

import os
import shutil
from functools import lru_cache

from slipway.yard.machines.hosts import reconciler
from slipway.yard.machines.hosts.boot_ways import MEND
from slipway.yard.machines.isolation.tiers import best_tier, programs
from slipway.yard.services.pcs.plain_conf import own_name

_PROGRAMS = {
    "mariadbd": "mariadb-server-core",
    "munged": "munge",
    "sbatch": "slurm-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
}

LEFT_OUT = (
    "Slurm's version: Debian's 22.05 runs for each version that PCS has, with munge for auth/slurm",
    "accounting: slurmdbd's own settings are kept and shown, and not carried out; its database is MariaDB's",
    "Slurm's REST API: no slurmrestd, and no endpoint of it",
    "the controller's time: it is up within seconds, as are changes of it; AWS takes minutes",
    "the agent: an imitation (yard/services/pcs/inside/agent.py), which says what it leaves out",
    "devices: a node counts those that gres.conf declares or its type has, though the machine has none",
    "containers: no enroot and no pyxis; ranks run on the node's own files, and a job's log says so",
    "processors and memory: a node says those of its instance type, and nothing holds a job to them",
    "control groups: tasks are found by their parents (proctrack/linuxproc) and not confined",
    "Slurm's settings: those that Debian's version has not are kept and shown, and not carried out",
    "instance types: of several in one node group the first with capacity; nothing compares their processors",
    "managed launch templates, interruptible reservations and scale-down times of one node group",
    "drained nodes: one that was given back is fit again, as in AWS ParallelCluster (idle_on_node_suspend)",
    "logs: the scaling log tells failures alone; those of the scheduler and of ended jobs are not delivered",
    "SUSPENDED clusters: no version of Slurm reaches its end of life",
)


# Further differences without root.
PLAIN = (
    "machines: slurmctld and each node's slurmd are processes of this user, who is the only one with jobs",
    "files: a machine's paths in a job's script mean the node's folder; other programs read them as they are",
    "user data's scripts and PCS's agent do not run; a node has its name from the yard",
    "programs of the machine image that Slurm runs after a job or as health check (Epilog …)",
)


def is_plain() -> bool:
    """Return True if Slurm's daemons are plain processes of this user."""
    return best_tier().name != "root"


@lru_cache(maxsize=1)
def obstacle() -> str:
    """Return why no controller can run here; "" if one can."""
    if not reconciler.are_kept():
        return "this yard keeps no hosts"
    if not own_name():
        return f"this user has a number ({os.geteuid()}) and no name, which Slurm asks for"
    lacking = sorted(
        package
        for program, package in _PROGRAMS.items()
        if shutil.which(program, path=f"{programs()}:/usr/sbin:/sbin") is None
    )
    return f"this machine lacks {', '.join(lacking)}; {MEND}" if lacking else ""


def described() -> list[str]:
    why = obstacle()
    if why:
        how = f"no Slurm runs, and `sbatch` has nobody to talk to: {why}"
    elif is_plain():
        how = "Slurm: without root its daemons and jobs are plain processes of this user, on 127.0.0.1"
    else:
        how = "Slurm: slurmctld on a host in the cluster's subnet, slurmd on nodes"
    return [how, *(f"left out: {what}" for what in (*LEFT_OUT, *(PLAIN if is_plain() else ())))]
