"""What a host is where no namespaces can be made: a folder and a loopback address; nothing is enforced.

What is said of paths of a machine image is said of that folder instead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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
