"""Lets a host's root change its own firewall tables, but not its security groups.

EC2's security groups are outside of an instance. Here they are a table in the host's network, so a host's
root has no rights over that network; this process, which has them, carries out its requests. Standard library
only; everything is loaded before the host's files replace this machine's.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

DOOR = "/run/yard/nft.sock"
GUARDED = "security_groups"
LARGEST = 1 << 16
# What a host may request: to declare, delete or write tables by name, but nothing that affects all tables.
_TABLES = re.compile(r"^\s*(?:delete |add |flush )?table \w+ (\w+)\b", re.MULTILINE)
_ALL = re.compile(r"\bflush\s+ruleset\b|\binclude\b")
_REFUSED = "Operation not permitted: a host of the yard may change its own tables, not its security groups"


def open_door(environment: Mapping[str, str]) -> None:
    """Fork the process that serves the host's root until the host ends."""
    if os.fork():
        return
    with contextlib.suppress(BaseException):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(DOOR)
        Path(DOOR).chmod(0o600)
        listener.listen(8)
        while True:
            caller, _ = listener.accept()
            with caller, contextlib.suppress(OSError):
                caller.sendall(_answer(_read(caller), environment).encode())
    os._exit(1)


def _read(caller: socket.socket) -> str:
    found = b""
    while len(found) < LARGEST and (chunk := caller.recv(4096)):
        found += chunk
    return found.decode()


def refusal(rules: str) -> str:
    """Return why these rules are refused; "" if they are not."""
    tables = _TABLES.findall(rules)
    return _REFUSED if not tables or GUARDED in rules or _ALL.search(rules) else ""


def _answer(rules: str, environment: Mapping[str, str]) -> str:
    """Apply the rules; return nft's error, or ""."""
    if why := refusal(rules):
        return why
    try:
        ran = subprocess.run(
            ["nft", "-f", "-"],
            input=rules,
            text=True,
            capture_output=True,
            check=False,
            env={**environment, "PATH": "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin"},
        )
    except OSError as error:
        return f"nft: {error.strerror}"
    return ran.stderr if ran.returncode else ""
