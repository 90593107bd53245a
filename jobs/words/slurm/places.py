"""Where Slurm, this project and a job's files lie on the nodes of a Slurm cluster; the yard asks, too.

Another installation of Slurm is one row of INSTALLATIONS; the first folder that holds `sbatch` is used.
"""

from __future__ import annotations

SHARED = "/shared"  # the cluster's EFS: homes, and what jobs leave
JOBS = f"{SHARED}/jobs"  # a folder a run: its batch script, its logs
SCRATCH = "/fsx"  # FSx for Lustre, where a cluster has it: datasets and compiled graphs

PYTHON = "/opt/slipway/venv/bin/python"
NODE_MODULE = "slipway.jobs.platforms.slurm.node.main"  # what the run document starts on the login node
SCRIPTS = "/opt/slipway/slurm"  # compile.slurm, run.slurm and the models' scripts, of the machine image
PROLOG = f"{SCRIPTS}/prolog.sh"  # slurmd runs them as root, before and after each job
EPILOG = f"{SCRIPTS}/epilog.sh"
NODE_FACTS = "/etc/slipway/node.json"  # what user data writes

# PCS puts it on every instance of a compute node group.
GROUP_TAG = "aws:pcs:compute-node-group-id"
CLUSTER_TAG = "aws:pcs:cluster-id"

QUEUE = "train"  # PCS's queue, and with its name Slurm's partition
ACTIONS = ("submit", "status", "cancel", "logs")  # what the run document does on the login node
GRES = "neuron"  # Slurm's name of a Trainium device

# AWS PCS user guide, "Software installers": Slurm's release without its last part names the folder. The other
# two are AWS ParallelCluster's and Debian's.
INSTALLATIONS = ("/opt/aws/pcs/scheduler/slurm-{release}/bin", "/opt/slurm/bin", "/usr/bin")


def program_folders(slurm_version: str) -> tuple[str, ...]:
    """Return the folders that may hold sbatch and its kin, the likeliest first."""
    release = ".".join(slurm_version.split(".")[:2])
    return tuple(folder.format(release=release) for folder in INSTALLATIONS)
