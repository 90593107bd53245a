"""What a host is where no namespaces can be made: a folder and a loopback address; nothing is enforced.

What is said of paths of a machine image is said of that folder instead.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard.machines.hosts.host_store import HostInstance
from slipway.yard.machines.hosts.inside.plain_sbatch import PLACES
from slipway.yard.machines.hosts.planning import boot, own_files

SSH_PORT = 2222  # below 1024 are root's
VENV = boot.VENV
# Folders of a machine that a host has in its own folder.
_OWN = ("/etc/slipway", "/opt/slipway", "/var/lib/cloud", "/var/log", "/run/yard")
_EMPTY = ("run", "root", "var/log", "etc/ssh/sshd_config.d")
_FOLDER_OF_SSHD = Path("/run/sshd")
_made: set[Path] = set()
SSHD_CONFIG = """\
Include {root}/etc/ssh/sshd_config.d/*.conf
Port {port}
ListenAddress {address}
HostKey {root}/etc/ssh/ssh_host_ed25519_key
PidFile {root}/run/sshd.pid
PasswordAuthentication no
StrictModes no
UsePAM no
SetEnv {variables}
"""


def loopback(address: str) -> str:
    """Return where this machine reaches a host of this address: 10.30.0.5 at 127.30.0.5."""
    return f"127.{address.partition('.')[2]}"


def make_folder_of_sshd() -> None:
    """sshd of root wants it, whoever started it, and where systemd runs no sshd it is not there."""
    if os.geteuid() == 0 and not _FOLDER_OF_SSHD.exists():
        _FOLDER_OF_SSHD.mkdir(mode=0o755)
        _made.add(_FOLDER_OF_SSHD)


def remove_made() -> None:
    while _made:
        with suppress(OSError):
            _made.pop().rmdir()


def metadata_listener(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(128)
    return listener


def environment(root: Path, base: Mapping[str, str], metadata: socket.socket) -> dict[str, str]:
    address, port = metadata.getsockname()
    return {
        **base,
        "HOME": str(root / "root"),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}:{port}",
        "SLIPWAY_NODE_ROOT": str(root),
        "SLIPWAY_NODE_SSH_PORT": str(SSH_PORT),
    }


def plan(root: Path, address: str, variables: Mapping[str, str], data: boot.UserData) -> dict[str, Any]:
    """Files of user data are written, its scripts are not run: they would change this machine."""
    said = " ".join(
        f'"{name}={value}"' for name, value in variables.items() if name.startswith(("AWS_", "SLI"))
    )
    config = SSHD_CONFIG.format(root=root, port=SSH_PORT, address=address, variables=said)
    files = {**_node_program(root), "/etc/ssh/sshd_config": {"text": config, "mode": 0o644}, **data.files}
    notes = [f"left out: {len(data.scripts)} scripts of user data, which would change this machine"]
    return {
        "environment": variables,
        "programs": boot.programs(data),
        "mend": own_files.INSTALL,
        "removed": [],
        "modes": {},
        "links": {f"{root}{path}": end for path, end in own_files.environment().items()},
        "appended": {},
        "written": {f"{root}{path}": given for path, given in files.items() if path not in data.scripts},
        "owned": {},
        "masked": str(root / "run/yard/masked"),
        "as_user": (),
        "boot": [
            ("mkdir", "-p", *(f"{root}/{name}" for name in _EMPTY)),
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{root}/etc/ssh/ssh_host_ed25519_key"),
            *(("echo", f"cloud-init: {note}") for note in notes),
        ],
        "keep_output": ("tee", "-a", f"{root}/cloud-init-output.log"),
        "units": (
            {
                "name": "ssh.service",
                "argv": ("/usr/sbin/sshd", "-D", "-e", "-f", f"{root}/etc/ssh/sshd_config"),
            },
            {"name": "slipway-node.service", "argv": (f"{root}{VENV}/bin/slipway-node", "serve")},
        ),
    }


def replaced(text: str, root: Path, mounts: Mapping[str, str]) -> str:
    """A document's script or a file of user data, with this host's folders in the places of a machine's."""
    for path in _OWN:
        text = text.replace(path, f"{root}{path}")
    for path, folder in mounts.items():
        text = text.replace(path, folder)
    return text


def _node_program(root: Path) -> dict[str, dict[str, Any]]:
    made = own_files.program(f"{root}{VENV}", own_files.NODE_MODULE)
    return {f"{VENV}/bin/slipway-node": made}


# A node of a Slurm cluster that is plain processes: a real slurmd, which has no files of its own. The
# cluster's controller and its nodes share a folder (shared_folder). What a job's script says of a machine's
# paths is said of the node's folder and of the shared file systems' by a program in front of sbatch.
Plan = dict[str, Any]

SBATCH_MODULE = "slipway.yard.machines.hosts.inside.plain_sbatch"
RELEASE = "release"  # in the shared folder: of Slurm, as the cluster was created
NODES = "nodes"  # in the shared folder: which node an instance is, and what a node's jobs get
_SCRIPTS = "jobs/platforms/slurm/scripts"  # of a Slurm cluster's image
_PROGRAMS = PLACES.rpartition("/")[0]  # in a host's folder, before Slurm's own on its PATH
_FOLDERS_OF_JOBS = ("/etc/slipway", "/opt/slipway")  # of a machine's folders, those that a job's script names
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
    return {**{path: f"{root}{path}" for path in _FOLDERS_OF_JOBS}, **mounts}
