"""A host without namespaces: a folder and a loopback address; nothing is enforced.

Paths of an AMI are translated into that folder. Nodes of a Slurm cluster are here, too.
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

SSH_PORT = 2222  # ports below 1024 are for root
VENV = boot.VENV
# Folders of a machine that are within the host's folder.
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
    """Return the loopback address of a host: 127.30.0.5 for 10.30.0.5."""
    return f"127.{address.partition('.')[2]}"


def make_folder_of_sshd() -> None:
    """Make the folder that root's sshd needs, and that is missing if systemd never started sshd."""
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
    """Return the host's plan; user data's files are written, but its scripts would change this machine."""
    shown = {name: value for name, value in variables.items() if name.startswith(("AWS_", "SLI"))}
    said = " ".join(f'"{name}={value}"' for name, value in shown.items())
    config = SSHD_CONFIG.format(root=root, port=SSH_PORT, address=address, variables=said)
    files = {
        f"{VENV}/bin/slipway-node": own_files.program(f"{root}{VENV}", own_files.NODE_MODULE),
        "/etc/ssh/sshd_config": {"text": config, "mode": 0o644},
        **data.files,
    }
    note = f"left out: {len(data.scripts)} scripts of user data, which would change this machine"
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
            ("echo", f"cloud-init: {note}"),
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
    """Return a script or file with a machine's paths replaced by this host's folders."""
    for path in _OWN:
        text = text.replace(path, f"{root}{path}")
    for path, folder in mounts.items():
        text = text.replace(path, folder)
    return text


# A Slurm node of plain processes: a real slurmd, without files of its own. The cluster's controller and nodes
# share a folder (shared_folder). A program in front of sbatch translates paths in job scripts into the node's
# folder and the shared file systems' folders.
Plan = dict[str, Any]

SBATCH_MODULE = "slipway.yard.machines.hosts.inside.plain_sbatch"
RELEASE = "release"  # in the shared folder: the cluster's Slurm version
NODES = "nodes"  # in the shared folder: instance -> node name, and the environment of each node's jobs
_SCRIPTS = "jobs/platforms/slurm/scripts"  # of a Slurm cluster's image
_PROGRAMS = PLACES.rpartition("/")[0]  # in a host's folder, before Slurm's programs on PATH
_FOLDERS_OF_JOBS = ("/etc/slipway", "/opt/slipway")  # a machine's folders that job scripts name
# slurmd does not pass its environment to jobs; the controller's TaskProlog does, from this file.
_SLURMD = """\
cd {nodes}
until [ -s {instance} ]; do sleep 0.2; done
read -r node <{instance}
env | sed -nE 's/^(AWS_|SLIPWAY_|SLURM_CONF=|PATH=)/export \\1/p' >"$node.environment"
exec slurmd -D -b -N "$node" -f {conf}
"""


def shared_folder(cluster: str) -> Path:
    """Return the folder through which the cluster's controller and nodes find each other."""
    return Path(tempfile.gettempdir()) / "pcs" / cluster


def variables(root: Path, cluster: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of all that runs on a node, including jobs."""
    return {
        **base,
        "PATH": os.pathsep.join([str(root / _PROGRAMS), base["PATH"]]),
        "SLURM_CONF": str(shared_folder(cluster) / "slurm.conf"),
        "SLIPWAY_PYTHON": f"{root}{slurm.PYTHON}",
    }


def node(plan: Mapping[str, Any], root: Path, instance: HostInstance, mounts: Mapping[str, str]) -> Plan:
    """Extend the plan of a plain host to a Slurm node; variables() gives its environment."""
    folder = shared_folder(instance.tags[slurm.CLUSTER_TAG])
    words = {"nodes": folder / NODES, "instance": instance.id, "conf": folder / "slurm.conf"}
    # The name that AWS's installer gives it (AWS PCS user guide, "Software installers to build custom AMIs").
    unit = f"slurmd-{(folder / RELEASE).read_text(encoding='utf-8')}.service"
    start = _SLURMD.format(**{name: shlex.quote(str(word)) for name, word in words.items()})
    places = {**{path: f"{root}{path}" for path in _FOLDERS_OF_JOBS}, **mounts}
    written = {
        **plan["written"],
        f"{root}/{_PROGRAMS}/sbatch": own_files.program(f"{root}{boot.VENV}", SBATCH_MODULE),
        f"{root}/{PLACES}": {"text": json.dumps(places), "mode": 0o644},
        **{
            f"{root}{slurm.SCRIPTS}/{script.name}": {"text": script.read_text(), "mode": 0o755}
            for script in files("slipway").joinpath(_SCRIPTS).iterdir()
        },
    }
    return {
        **plan,
        "written": written,
        # slipway-node looks for shared files below the host's folder, too.
        "links": {**plan["links"], **{f"{root}{folder}": folder for folder in mounts.values()}},
        "units": (*plan["units"], {"name": unit, "argv": ("sh", "-c", start)}),
    }
