"""Makes the nodes of a cluster trust each other, by one authority that all derive from the cluster's secret.

Each node signs its own host key and a key of the cluster's user, and then deletes the authority. Machines
outside the cluster cannot read the secret, so they have no valid certificate: no host key is ever taken on
trust.
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slipway.jobs.platforms.mpi.node.setting import USER, NodePaths
from slipway.jobs.platforms.on_nodes import PROGRAM, SECRET, write_whole

_LABEL = b"slipway cluster certificate authority\0"
# The clocks of two nodes may differ; certificates are renewed long before their end.
_VALID = "-5m:+7d"
_KEYGEN_SECONDS = 30.0  # it asks nobody
_FOLDER_MODE = 0o755  # of the keys' folder; the keys themselves are not readable for all
_LENT = 0o440
HOST_KEY, USER_KEY = "host/ssh_host_ed25519_key", "user/id_ed25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    uid: int
    gid: int
    home: str


def cluster_user() -> User:
    """Return the user that the AMI has; without one (the yard without root), the current user."""
    try:
        found = pwd.getpwnam(USER)
    except KeyError:
        found = None
    if found is None or os.geteuid() not in (0, found.pw_uid) or not _can_become(found.pw_uid):
        found = pwd.getpwuid(os.geteuid())
    return User(name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid, home=found.pw_dir)


def authority_seed(secret: str) -> bytes:
    return sha256(_LABEL + secret.encode()).digest()


def private_key_text(seed: bytes) -> str:
    """Encode the private key in OpenSSH's own format, which every ssh-keygen reads."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def public_key_text(seed: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def establish(where: NodePaths, secret: str, names: Sequence[str], user: User) -> bool:
    """Write keys and certificates of this node; return True if sshd has to read them again."""
    seed = authority_seed(secret)
    authority = where.keys / "authority"
    try:
        write_whole(authority, private_key_text(seed), SECRET)
        is_new = _sign(where.keys / HOST_KEY, authority, ["-h", "-n", ",".join(names)], names[0])
        _sign(where.keys / USER_KEY, authority, ["-n", user.name, *_NARROW], f"{user.name}@{names[0]}")
    finally:
        authority.unlink(missing_ok=True)
    # The user may read the key, but neither change nor replace it: the file and its folder stay root's.
    # ssh accepts a key that others can read if the reader does not own it (sshkey_perm_ok of OpenSSH).
    if os.geteuid() != user.uid:
        lent = where.keys / USER_KEY
        os.chown(lent, os.geteuid(), user.gid, follow_symlinks=False)
        lent.chmod(_LENT)
    public = public_key_text(seed)
    write_whole(where.own / "known_hosts", f"@cert-authority * {public}\n")
    write_whole(where.own / "user_authority.pub", f"{public}\n")
    write_whole(where.client, _client_text(where, user))
    program = f'#!/bin/sh\nexec ssh -F {shlex.quote(str(where.client))} "$@"\n'
    write_whole(where.ssh_program, program, PROGRAM)
    write_whole(where.ssh / "sshd_config.d/slipway.conf", server_text(where, user))
    return is_new


def has_keys(where: NodePaths) -> bool:
    """Return False if a key or its certificate is missing, so that `establish` must make them again."""
    paths = (where.keys / f"{key}{end}" for key in (HOST_KEY, USER_KEY) for end in ("", "-cert.pub"))
    return all(path.exists() for path in paths)


# In the user's certificate: a terminal for people who enter a node, and no forwarding of anything.
_NARROW = ["-O", "clear", "-O", "permit-pty"]


def _sign(key: Path, authority: Path, words: Sequence[str], identity: str) -> bool:
    """Make the key if there is none, and sign a new certificate; return True if the key is new."""
    is_new = not key.exists()
    if is_new:
        key.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        _keygen("-t", "ed25519", "-N", "", "-C", identity, "-f", str(key))
    _keygen("-s", str(authority), "-I", identity, "-V", _VALID, *words, f"{key}.pub")
    return is_new


def _keygen(*words: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", *words], check=True, stdin=subprocess.DEVNULL, timeout=_KEYGEN_SECONDS
    )


def _client_text(where: NodePaths, user: User) -> str:
    key = where.keys / USER_KEY
    lines = [
        f"Include {where.host_addresses}",
        "Host ip-*",
        f"  User {user.name}",
        f"  Port {where.ssh_port}",
        f"  IdentityFile {key}",
        f"  CertificateFile {key}-cert.pub",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {where.own / 'known_hosts'}",
        "  GlobalKnownHostsFile none",
        "  HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        "  ConnectTimeout 5",
        "  ServerAliveInterval 5",
        "  ServerAliveCountMax 2",
    ]
    return "\n".join(lines) + "\n"


def server_text(where: NodePaths, user: User) -> str:
    key = where.keys / HOST_KEY
    lines = [
        f"HostKey {key}",
        f"HostCertificate {key}-cert.pub",
        f"TrustedUserCAKeys {where.own / 'user_authority.pub'}",
        f"AllowUsers {user.name}",
        "AuthorizedKeysFile none",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        # Every host of a large cluster may be asked at one moment.
        "MaxStartups 200:30:400",
    ]
    return "\n".join(lines) + "\n"


def _can_become(uid: int) -> bool:
    """Return True if the user exists in this user namespace: those of the yard map only some."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        ranges = [tuple(map(int, line.split())) for line in lines]
    except (OSError, ValueError):
        return True
    return any(first <= uid < first + count for first, _, count in ranges)
