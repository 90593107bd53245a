"""The tree of a host whose AMI was not baked here: this machine's own files, made to look like the AMI.

The AMI's Python environment is this checkout's; `slipway yard status` says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slipway.yard import state
from slipway.yard.machines.hosts.inside.tree import PROGRAMS
from slipway.yard.machines.hosts.planning.boot import VENV
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import CHECKOUT, needed

USER = "slipway"  # our machine images have it
USER_ID = 64001  # unused on this machine: Debian gives 1000 to 59999 to users
# Removed from the host's tree: this machine's keys and settings.
REMOVED = ("/root/.ssh", "/root/.aws", f"/home/{USER}", "/etc/ssh/sshd_config", "/etc/slipway")
HOST_KEYS = Path("/etc/ssh")
SSHD_CONFIG = """\
Include /etc/ssh/sshd_config.d/*.conf
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM yes
X11Forwarding no
PrintMotd no
Subsystem sftp internal-sftp
"""
# EC2 Instance Connect on the host, as in Ubuntu's and Amazon Linux's AMIs: sshd asks this program for
# the keys in the metadata. It does not check a key's signature, which would need AWS's certificate.
CONNECT_USER, CONNECT_USER_ID = "ec2-instance-connect", 64002
_CONNECT_PROGRAM = "/etc/ssh/eic_run_authorized_keys"  # on AWS in /usr/share/ec2-instance-connect
CONNECT = {
    _CONNECT_PROGRAM: {
        "mode": 0o755,
        "text": """\
#!/bin/sh
of=http://169.254.169.254/latest
token="$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$of/api/token")" || exit 255
exec curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$of/meta-data/managed-ssh-keys/active-keys/$1"
""",
    },
    "/etc/ssh/sshd_config.d/00-instance-connect.conf": {
        "mode": 0o644,
        "text": f"AuthorizedKeysCommand {_CONNECT_PROGRAM} %u %f\nAuthorizedKeysCommandUser {CONNECT_USER}\n",
    },
}
CONNECT_ACCOUNT = {
    "/etc/passwd": f"{CONNECT_USER}:x:{CONNECT_USER_ID}:{CONNECT_USER_ID}::/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"{CONNECT_USER}:x:{CONNECT_USER_ID}:\n",
    "/etc/shadow": f"{CONNECT_USER}:*:20000:0:99999:7:::\n",
}
# A program of the AMI that runs a module of this checkout instead.
PROGRAM = """\
#!{venv}/bin/python
import sys
sys.path.insert(0, {checkout!r})
from {module} import main
sys.exit(main())
"""
NODE_MODULE = "slipway.jobs.platforms.mpi.node.main"
AWS_MODULE = "slipway.yard.machines.hosts.planning.aws_command"
# Advice for a host that lacks a program: INSTALL if its files are this machine's, BAKE_AGAIN if an AMI's.
INSTALL = (
    "install it with `python3 scripts/set_up.py machine` (as root), then restart the yard: "
    "slipway yard down; slipway yard up"
)
BAKE_AGAIN = "bake a machine image that has it: slipway image bake"
_HIDDEN = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - each host has its own


def plan(tier: Tier) -> dict[str, Any]:
    """Return the part of a host's plan that is about its files."""
    is_overlay = tier.name == "root"
    homes = home.plan(needed(), state.home())
    is_there = _is_in_overlay if is_overlay else _is_program
    bound = [path for path in needed() if not is_there(Path(path))]
    return {
        "mend": INSTALL,
        "tree": "overlay" if is_overlay else "copied",
        "lower": "/",
        "overlay_options": "",
        "home": homes,
        "mounts": [(path, path) for path in bound],
        "read_only": [path for path in bound if path in homes["shown"]],
        "removed": [*REMOVED, *map(str, HOST_KEYS.glob("ssh_host_*"))],
        "modes": {str(path): 0o711 for path in _on_the_way() if is_overlay},
        "links": environment(),
        "appended": {
            "/etc/passwd": f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n",
            "/etc/group": f"{USER}:x:{USER_ID}:\n",
            "/etc/shadow": f"{USER}:*:20000:0:99999:7:::\n",
        },
        "written": {
            "/etc/ssh/sshd_config": {"text": SSHD_CONFIG, "mode": 0o644},
            f"{VENV}/bin/slipway-node": program(VENV, NODE_MODULE),
            f"{VENV}/bin/aws": program(VENV, AWS_MODULE),
        },
        "owned": {f"/home/{USER}": USER_ID} if is_overlay else {f"/home/{USER}": 0},
    }


def program(venv: str, module: str) -> dict[str, Any]:
    text = PROGRAM.format(venv=venv, checkout=str(CHECKOUT), module=module)
    return {"text": text, "mode": 0o755}


def _is_in_overlay(path: Path) -> bool:
    """Return False if an overlay on / would not show the path: another file system, or a hidden folder."""
    if any(Path(hidden) in path.parents for hidden in _HIDDEN):
        return False
    return not any(os.path.ismount(folder) for folder in (path, *path.parents[:-1]))


def _is_program(path: Path) -> bool:
    """Return True if an ordinary user's host already has the path, writable, which a mount would not be."""
    for folder in (Path("/", name) for name in PROGRAMS):
        if folder in (path, *path.parents):
            between = [each for each in (path, *path.parents) if folder in each.parents]
            return not any(map(os.path.ismount, between))
    return False


def _on_the_way() -> Iterator[Path]:
    """Yield folders that only root may enter, but below which are programs for every user of a host."""
    for path in needed():
        for parent in Path(path).parents:
            if not parent.stat().st_mode & 0o001:
                yield parent


def environment() -> dict[str, str]:
    """Return links that make this Python environment appear at VENV: Python looks for pyvenv.cfg there."""
    prefix = Path(sys.prefix)
    # A link's target: an interpreter reached through this environment would take it for its own.
    ends = {file.name: file.resolve() if file.is_symlink() else file for file in (prefix / "bin").iterdir()}
    links = {f"{VENV}/bin/{name}": str(end) for name, end in ends.items()}
    links |= {f"{VENV}/{entry.name}": str(entry) for entry in prefix.iterdir() if entry.name != "bin"}
    return links
