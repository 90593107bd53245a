"""The tree of a host whose machine image was not baked here: this machine's own files, made to look like one.

The environment of the image is this checkout's; `slipway yard status` says so.
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
USER_ID = 64001  # of nobody on this machine: Debian gives 1000 to 59999 to people
# This machine's keys and its root's are not the host's.
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
# EC2 Instance Connect's part on a machine, which Ubuntu's and Amazon Linux's images bring: sshd asks it for
# the keys in the metadata. It leaves out a key's signature, for which the yard has no certificate of AWS's.
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
# A program of a machine image that is a module of ours here.
PROGRAM = """\
#!{venv}/bin/python
import sys
sys.path.insert(0, {checkout!r})
from {module} import main
sys.exit(main())
"""
NODE_MODULE = "slipway.jobs.platforms.mpi.node.main"
AWS_MODULE = "slipway.yard.machines.hosts.planning.aws_command"
# What mends a host that lacks a program, where its programs are this machine's and where they are an image's.
INSTALL = (
    "install it with `python3 scripts/set_up.py machine` (as root), then restart the yard: "
    "slipway yard down; slipway yard up"
)
BAKE_AGAIN = "bake a machine image that has it: slipway image bake"
_HIDDEN = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - a host's are its own


def plan(tier: Tier) -> dict[str, Any]:
    """The part of a host's plan that is about its files."""
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
    """Return False where an overlay would hide the path: on another file system, or a host's own folder."""
    if any(Path(hidden) in path.parents for hidden in _HIDDEN):
        return False
    return not any(os.path.ismount(each) for each in (path, *path.parents[:-1]))


def _is_program(path: Path) -> bool:
    """Return True where an ordinary user's host has the path already, writable: a mount would end that."""
    for folder in (Path("/", name) for name in PROGRAMS):
        if folder in (path, *path.parents):
            between = [each for each in (path, *path.parents) if folder in each.parents]
            return not any(map(os.path.ismount, between))
    return False


def _on_the_way() -> Iterator[Path]:
    """Folders that only root may pass, and behind which lies what every user of a host runs."""
    for path in needed():
        for parent in Path(path).parents:
            if not parent.stat().st_mode & 0o001:
                yield parent


def environment() -> dict[str, str]:
    """An environment whose parts are this one's: Python takes the folder of pyvenv.cfg for its own."""
    own = Path(sys.prefix)
    links = {f"{VENV}/bin/{each.name}": _end(each) for each in (own / "bin").iterdir()}
    links |= {f"{VENV}/{each.name}": str(each) for each in own.iterdir() if each.name != "bin"}
    return links


def _end(path: Path) -> str:
    """A link to the interpreter leads out of this environment at once, lest it be taken for its own."""
    return str(path.resolve() if path.is_symlink() else path)
