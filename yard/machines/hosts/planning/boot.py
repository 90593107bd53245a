"""Decides what a host does when it boots: the steps of its user data, and the AMI's units.

User data has cloud-init's forms: a script, #cloud-config, or a MIME message of such parts. To
add a kind of part: a line of _PARTS.
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
# What systemd starts in our AMIs. sshd's host keys come first: an image has none.
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
FIRST_STEPS = (
    ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", HOST_KEY),
    ("install", "-d", "-m", "755", "/run/sshd"),
)
UNITS = (
    {"name": "ssh.service", "argv": ("/usr/sbin/sshd", "-D", "-e")},
    {"name": "slipway-node.service", "argv": (f"{VENV}/bin/slipway-node", "serve")},
)
# Our user data (infra/patterns/nodes/boot.py) writes here what the node needs to know of its cluster.
NODE_FILE = "/etc/slipway/node.json"
_CONFIG_KEYS = frozenset({"write_files"})


@dataclass(slots=True)
class UserData:
    """Files to write before anything runs, scripts to run in order, and descriptions of ignored parts."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    is_of_bare_ami: bool = False  # for AWS's own AMI: a boothook installs what our bakes contain


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
    """Return the boot steps: notes on ignored parts, for the boot log, and the scripts' files."""
    notes = [("echo", f"cloud-init: left out: {part}") for part in found.left_out]
    return [*FIRST_STEPS, *notes, *((path,) for path in found.scripts)]


def told(found: UserData) -> Mapping[str, Any]:
    """Return the content of NODE_FILE in user data; empty for machines that are not our nodes."""
    try:
        said = json.loads(found.files.get(NODE_FILE, {}).get("text") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def programs(found: UserData) -> list[tuple[str, ...]]:
    """Return the programs that jobs on this host start, each by its possible names."""
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
    """Ignore a boothook: only cloud-init runs it, and this machine's files already have what it installs."""
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
