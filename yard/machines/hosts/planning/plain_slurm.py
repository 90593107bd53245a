"""A node of a Slurm cluster that is plain processes: a real slurmd, which has no files of its own.

The cluster's controller and its nodes share a folder (shared_folder). What a job's script says of a machine's
paths is said of the node's folder and of the shared file systems' by a program in front of sbatch.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.machines.hosts.host_instance import HostInstance
from slipway.yard.machines.hosts.inside.plain_sbatch import PLACES
from slipway.yard.machines.hosts.planning import boot, own_files

Plan = dict[str, Any]

SBATCH_MODULE = "slipway.yard.machines.hosts.inside.plain_sbatch"
RELEASE = "release"  # in the shared folder: of Slurm, as the cluster was created
NODES = "nodes"  # in the shared folder: which node an instance is, and what a node's jobs get
_SCRIPTS = "jobs/platforms/slurm/scripts"  # of a Slurm cluster's image
_PROGRAMS = PLACES.rpartition("/")[0]  # in a host's folder, before Slurm's own on its PATH
_OWN = ("/etc/slipway", "/opt/slipway")  # of a machine's folders, those that a job's script names
# slurmd gives nothing of its own environment to jobs; the controller's TaskProlog does, from this file.
_SLURMD = """\
cd {nodes}
until [ -s {instance} ]; do sleep 0.2; done
read -r node <{instance}
env | sed -nE 's/^(AWS_|SLIPWAY_|SLURM_CONF=|PATH=)/export \\1/p' >"$node.environment"
exec slurmd -D -b -N "$node" -f {conf}
"""


def shared_folder(cluster: str) -> Path:
    """Return where the controller of a cluster, by its id, and its nodes find each other."""
    return Path(tempfile.gettempdir()) / "pcs" / cluster


def variables(root: Path, cluster: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of all that runs on a node, jobs as well."""
    return {
        **base,
        "PATH": os.pathsep.join([str(root / _PROGRAMS), base["PATH"]]),
        "SLURM_CONF": str(shared_folder(cluster) / "slurm.conf"),
        "SLIPWAY_PYTHON": f"{root}{slurm.PYTHON}",
    }


def node(plan: Mapping[str, Any], root: Path, instance: HostInstance, mounts: Mapping[str, str]) -> Plan:
    """Add to the plan of a plain host what makes it a node; its environment is that of variables()."""
    folder = shared_folder(instance.tags[slurm.CLUSTER_TAG])
    words = {"nodes": folder / NODES, "instance": instance.id, "conf": folder / "slurm.conf"}
    # As AWS's installer of Slurm calls it (AWS PCS user guide, "Software installers to build custom AMIs").
    unit = f"slurmd-{(folder / RELEASE).read_text(encoding='utf-8')}.service"
    start = _SLURMD.format(**{name: shlex.quote(str(word)) for name, word in words.items()})
    written = {
        **plan["written"],
        f"{root}/{_PROGRAMS}/sbatch": own_files.program(f"{root}{boot.VENV}", SBATCH_MODULE),
        f"{root}/{PLACES}": {"text": json.dumps(_places(root, mounts)), "mode": 0o644},
        **{
            f"{root}{slurm.SCRIPTS}/{script.name}": {"text": script.read_text(), "mode": 0o755}
            for script in files("slipway").joinpath(_SCRIPTS).iterdir()
        },
    }
    return {
        **plan,
        "written": written,
        # A program of ours looks for shared files below the host's folder, too.
        "links": {**plan["links"], **{f"{root}{folder}": folder for folder in mounts.values()}},
        "units": (*plan["units"], {"name": unit, "argv": ("sh", "-c", start)}),
    }


def _places(root: Path, mounts: Mapping[str, str]) -> Mapping[str, str]:
    return {**{path: f"{root}{path}" for path in _OWN}, **mounts}
