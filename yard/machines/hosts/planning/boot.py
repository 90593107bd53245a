"""What a host does when it boots, decided here: its user data as steps, and the units of the machine image.

User data is what cloud-init takes: a script, or a MIME message of scripts and of #cloud-config files. A
further kind of part is a line of _PARTS.
"""

from __future__ import annotations

import base64
import email
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from slipway.jobs.words.mpi import MPIS

SCRIPTS = "/var/lib/cloud/instance/scripts"
KEEP_OUTPUT = ("tee", "-a", "/var/log/cloud-init-output.log")
VENV = "/opt/slipway/venv"
# What systemd starts in our machine images. The keys of sshd come first: an image has none.
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
FIRST_STEPS = (
    ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", HOST_KEY),
    ("install", "-d", "-m", "755", "/run/sshd"),
)
UNITS = (
    {"name": "ssh.service", "argv": ("/usr/sbin/sshd", "-D", "-e")},
    {"name": "slipway-node.service", "argv": (f"{VENV}/bin/slipway-node", "serve")},
)
# Of ours, written by user data (infra/patterns/nodes/boot.py): what the node is told of its cluster.
NODE_FILE = "/etc/slipway/node.json"
_CONFIG_KEYS = frozenset({"write_files"})


@dataclass(slots=True)
class UserData:
    """Files to write before anything runs, scripts to run in order, and what is passed over, and why."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    is_of_bare_ami: bool = False  # of AWS's own, to which a boothook brings what our bakes hold


def read_user_data(encoded: str) -> UserData:
    found = UserData()
    raw = base64.b64decode(encoded or "")
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", errors="replace")
    if text.startswith("#!"):
        _script(text, found)
    elif text.startswith("#cloud-config"):
        _config(text, found)
    elif text.strip():
        _message(email.message_from_string(text), found)
    return found


def steps(found: UserData) -> list[tuple[str, ...]]:
    """The scripts are files by now; what cloud-init passes over is said where it would say it."""
    notes = [("echo", f"cloud-init: left out: {each}") for each in found.left_out]
    return [*FIRST_STEPS, *notes, *((path,) for path in found.scripts)]


def told(found: UserData) -> Mapping[str, Any]:
    """Return what user data tells a node of ours; nothing for other machines."""
    try:
        said = json.loads(found.files.get(NODE_FILE, {}).get("text") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def programs(found: UserData) -> list[tuple[str, ...]]:
    """Return the programs that jobs on this host start, each by its possible names, best known first."""
    mpi = MPIS.get(str(told(found).get("mpi")))
    return [(mpi.programs[-1], *mpi.programs)] if mpi else []


def _message(message: Message, found: UserData) -> None:
    if not message.is_multipart():
        found.left_out.append("user data that is neither a script nor a MIME message")
        return
    for part in message.walk():
        if part.is_multipart():
            continue
        read = _PARTS.get(part.get_content_type())
        if read is None:
            found.left_out.append(f"a part of type {part.get_content_type()}")
            continue
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        read(payload.decode("utf-8", errors="replace"), found)


def _script(text: str, found: UserData) -> None:
    path = f"{SCRIPTS}/part-{len(found.scripts) + 1:03d}"
    found.files[path] = {"text": text, "mode": 0o700}
    found.scripts.append(path)


def _hook(text: str, found: UserData) -> None:
    """Leave it to a host with cloud-init: where that is imitated, this machine's files are an image's."""
    found.is_of_bare_ami = True
    found.left_out.append("a part of type text/cloud-boothook")


def _config(text: str, found: UserData) -> None:
    import yaml

    from slipway.yard import bounded_yaml

    try:
        given = bounded_yaml.load(text) or {}
    except yaml.YAMLError as error:
        found.left_out.append(f"#cloud-config, which cannot be read as YAML: {error}")
        return
    if not isinstance(given, dict):
        found.left_out.append("#cloud-config, which is no mapping")
        return
    found.left_out += [f"#cloud-config {key}" for key in sorted(map(str, set(given) - _CONFIG_KEYS))]
    for file in given.get("write_files", ()):
        mode = int(str(file.get("permissions", "0644")), 8)
        found.files[file["path"]] = {"text": file.get("content", ""), "mode": mode}


_PARTS: Mapping[str, Callable[[str, UserData], None]] = {
    "text/x-shellscript": _script,
    "text/cloud-boothook": _hook,
    "text/cloud-config": _config,
}
