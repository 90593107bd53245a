"""How a PCS cluster of the yard differs from one on AWS. `slipway yard status` prints it."""

from __future__ import annotations

import shutil
from functools import lru_cache

from slipway.yard.machines.hosts import reconciler
from slipway.yard.machines.hosts.boot_ways import MEND
from slipway.yard.machines.isolation.tiers import best_tier, programs

_PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}

LEFT_OUT = (
    "Slurm's version: Debian's 22.05 runs for each version that PCS has, with munge for auth/slurm",
    "accounting: slurmdbd is not there; the controller remembers ended jobs for a day, and sacct knows none",
    "Slurm's REST API: no slurmrestd, and no endpoint of it",
    "the controller's time: it is up within seconds, as are changes of it; AWS takes minutes",
    "the agent: an imitation (yard/services/pcs/inside/agent.py), which says what it leaves out",
    "devices: a node counts those that gres.conf declares, though the machine has none of them",
    "processors and memory: a node says those of its instance type, and nothing holds a job to them",
    "control groups: tasks are found by their parents (proctrack/linuxproc) and not confined",
    "Slurm's settings: those that Debian's version has not are kept and shown, and not carried out",
    "instance types: of several in one node group the first with capacity; nothing compares their processors",
    "managed launch templates, interruptible reservations and scale-down times of one node group",
    "drained nodes: one that was given back is fit again, as in AWS ParallelCluster (idle_on_node_suspend)",
    "logs: the scaling log tells failures alone; those of the scheduler and of ended jobs are not delivered",
    "SUSPENDED clusters: no version of Slurm reaches its end of life",
)


@lru_cache(maxsize=1)
def obstacle() -> str:
    """Say why no controller can run here; "" where it can."""
    if not reconciler.are_kept():
        return "this yard keeps no hosts"
    if best_tier().name != "root":
        return (
            "only root can start a controller and nodes with networks of their own: PCS's resources are kept "
            "and checked, and `sbatch` has nobody to talk to"
        )
    lacking = sorted(
        package
        for program, package in _PROGRAMS.items()
        if shutil.which(program, path=f"{programs()}:/usr/sbin:/sbin") is None
    )
    return f"this machine lacks {', '.join(lacking)}; {MEND}" if lacking else ""


def described() -> list[str]:
    why = obstacle()
    how = (
        f"no Slurm runs: {why}"
        if why
        else "Slurm: slurmctld on a host in the cluster's subnet, slurmd on nodes"
    )
    return [how, *(f"left out: {each}" for each in LEFT_OUT)]
