"""Decides which processes, files and mounts a host has: the plan that hosts/inside carries out."""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slipway.jobs.words import slurm
from slipway.yard.machines import image_store, storage
from slipway.yard.machines.hosts import boot_ways, service_hosts
from slipway.yard.machines.hosts.host_store import HostInstance
from slipway.yard.machines.hosts.planning import boot, own_files, plain, real_boot, systemd
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import STAND_IN

PLAN_FILE = "plan.json"
STAND_IN_FILE = "/etc/slipway/stand-in"  # Slurm jobs look for it (jobs/platforms/slurm/node)
PATH = f"{systemd.FOLDER}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FILE_SYSTEM = re.compile(r"\bfs-[0-9a-f]{8,17}\b")
_TERMINALS = {"root": "newinstance,ptmxmode=0666,mode=620,gid=5"}
_TERMINALS_OF_USER = "newinstance,ptmxmode=0666,mode=620"  # group 5 does not exist there
# An ordinary user cannot call setgroups, so sshd lets in only the user that it runs as. There, units and
# commands run as that one user.
_USERS = "/run/yard/users"  # one for all: a command must be able to end another's job
_AS_USER = ("nsenter", f"--user={_USERS}", "--preserve-credentials")

Plan = dict[str, Any]


def write(instance: HostInstance, tier: Tier, firewall: str, boots: str) -> Path:
    """Write the plan for the host's first process; return the file."""
    folder = root() / instance.id
    (folder / "mount").mkdir(parents=True)
    file = folder / PLAN_FILE
    file.touch(mode=0o600)  # only root may read user data
    if instance.is_service:
        decide = _service_plan
    elif boots == boot_ways.SYSTEMD:
        decide = _real_plan
    else:
        decide = _plan
    file.write_text(json.dumps(decide(instance, tier, firewall, folder)), encoding="utf-8")
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Holds what the yard needs to know of a host without isolation."""

    file: Path
    metadata: socket.socket
    environment: Mapping[str, str]
    root: Path
    mounts: Mapping[str, str]

    def said(self, text: str) -> str:
        """Return the text with a machine's paths replaced by this host's folders."""
        return plain.replaced(text, self.root, self.mounts)


def write_plain(instance: HostInstance) -> Plain:
    folder = root() / instance.id
    files = folder / "root"
    files.mkdir(parents=True)
    data = boot.read_user_data(instance.user_data)
    metadata = plain.metadata_listener(instance.address)
    variables = plain.environment(files, environment(), metadata)
    cluster = instance.tags.get(slurm.CLUSTER_TAG)
    variables = plain.variables(files, cluster, variables) if cluster else variables
    mounts = {path: source for source, path in _shared(data)}
    found = Plain(
        file=folder / PLAN_FILE, metadata=metadata, environment=variables, root=files, mounts=mounts
    )
    for given in data.files.values():
        given["text"] = found.said(given["text"])
    said = plain.plan(files, instance.address, variables, data)
    if instance.is_service:
        said = {**said, **_of_service(instance)}
    elif cluster:
        said = plain.node(said, files, instance, mounts)
    found.file.write_text(json.dumps(said), encoding="utf-8")
    return found


def root() -> Path:
    return Path(tempfile.gettempdir()) / "hosts"


def port() -> int:
    """Return the yard's port, which is the same inside each host."""
    return urlsplit(os.environ["SLIPWAY_YARD_ENDPOINT"]).port or 0


def environment() -> dict[str, str]:
    """Return the environment of everything on a host; only the endpoint differs from AWS."""
    return {
        "PATH": PATH,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "AWS_ENDPOINT_URL": os.environ["SLIPWAY_YARD_ENDPOINT"],
        **STAND_IN,
        "SLIPWAY_SMT_CONTROL": "/run/yard/smt-control",  # infra/boot: not this machine's own
    }


def real_environment() -> dict[str, str]:
    """Return the environment of what runs on a host with its own systemd."""
    folder = f"{systemd.FOLDER}:"
    changed = {"PATH": PATH.removeprefix(folder), "SLIPWAY_SMT_CONTROL": f"{real_boot.RUN}/smt-control"}
    return {**environment(), **changed}


def _plan(instance: HostInstance, tier: Tier, firewall: str, folder: Path) -> Plan:
    data = boot.read_user_data(instance.user_data)
    tree = _tree(instance, tier)
    written = {**tree["written"], **systemd.FILES, **_names(instance), **_variables(), **data.files}
    return {
        **tree,
        "folder": str(folder / "mount"),
        "mounts": [*tree["mounts"], *_shared(data)],
        "terminals": _TERMINALS.get(tier.name, _TERMINALS_OF_USER),
        "written": written,
        "hostname": instance.hostname,
        "address": f"{instance.address}/{instance.prefix_length}",
        "firewall": firewall,
        "port": port(),
        "environment": environment(),
        "boot": boot.steps(data),
        "programs": boot.programs(data),
        "keep_output": boot.KEEP_OUTPUT,
        "units": boot.UNITS,
        "masked": systemd.MASKED,
        "is_root": tier.name == "root",
        "as_user": _AS_USER if tier.name == "user" else (),
        "users": {_USERS: own_files.USER_ID} if tier.name == "user" else {},
    }


def _service_plan(instance: HostInstance, tier: Tier, firewall: str, folder: Path) -> Plan:
    """Return the plan of a service's host: its programs, on this machine's files, without logins."""
    given = service_hosts.find(instance.id)
    plan = _plan(instance, tier, firewall, folder)
    return {
        **plan,
        **_of_service(instance),
        "mounts": [*plan["mounts"], *given.mounts],
        "written": {**plan["written"], **given.written},
    }


def _of_service(instance: HostInstance) -> Plan:
    given = service_hosts.find(instance.id)
    return {"boot": given.steps, "units": given.units}


def _real_plan(instance: HostInstance, tier: Tier, firewall: str, folder: Path) -> Plan:
    """Return the plan of a host that boots for real: systemd and cloud-init do the rest."""
    data = boot.read_user_data(instance.user_data)
    for _ in _shared(data):  # this makes the folder that the host will mount
        pass
    is_own = image_store.root_of(instance.image) is None
    is_slurm = slurm.GROUP_TAG in instance.tags
    tree = real_boot.of_tree(
        _tree(instance, tier), is_own=is_own, is_slurm=is_slurm, is_bare=data.is_of_bare_ami
    )
    variables = real_environment()
    given = real_boot.plan(instance, variables)
    names = _names(instance) if is_own else {}
    domain = instance.hostname.partition(".")[2]
    files = real_boot.files(variables, given["resolver"], domain)
    return {
        **tree,
        **given,
        "folder": str(folder / "mount"),
        "written": {**tree["written"], **names, **_variables(), **files},
        "address": f"{instance.address}/{instance.prefix_length}",
        "firewall": firewall,
        "port": port(),
        "is_root": True,
    }


def _tree(instance: HostInstance, tier: Tier) -> Plan:
    files = image_store.root_of(instance.image)
    tree = own_files.plan(tier) if files is None else _baked(files, tier)
    account = {
        path: tree["appended"].get(path, "") + own_files.CONNECT_ACCOUNT[path]
        for path in own_files.CONNECT_ACCOUNT
    }
    return {
        **tree,
        "appended": {**tree["appended"], **account},
        "written": {**tree["written"], **own_files.CONNECT},
    }


def _baked(files: Path, tier: Tier) -> Plan:
    return {
        "tree": "overlay",
        "mend": own_files.BAKE_AGAIN,
        "lower": str(files),
        "overlay_options": "" if tier.name == "root" else ",userxattr",
        "home": home.NOTHING,
        "mounts": [],
        "read_only": [],
        "removed": [],
        "modes": {},
        "links": {},
        "appended": {},
        "written": {},
        "owned": {},
    }


def _names(instance: HostInstance) -> Plan:
    """Return /etc/hosts with the host's own names, since there is no DNS; its cluster gives it the others."""
    names = f"{instance.hostname} {instance.name}"
    hosts = (
        f"127.0.0.1 localhost\n::1 localhost\n{instance.address} {names}\n::ffff:{instance.address} {names}\n"
    )
    return {
        "/etc/hosts": {"text": hosts, "mode": 0o644},
        "/etc/hostname": {"text": f"{instance.hostname}\n", "mode": 0o644},
        "/etc/resolv.conf": {"text": "# the yard has no DNS\n", "mode": 0o644},
        "/etc/machine-id": {"text": f"{instance.id[2:]:0>32}\n", "mode": 0o444},
    }


def _variables() -> Plan:
    """Return files with the variables for ssh sessions and for tools that start without an environment."""
    endpoint = environment()["AWS_ENDPOINT_URL"]
    return {
        "/etc/ssh/sshd_config.d/00-yard.conf": {
            "text": f"SetEnv AWS_ENDPOINT_URL={endpoint}\n",
            "mode": 0o644,
        },
        "/etc/environment": {"text": f"AWS_ENDPOINT_URL={endpoint}\n", "mode": 0o644},
        STAND_IN_FILE: {"text": "processors stand in for accelerators\n", "mode": 0o644},
    }


def _shared(data: boot.UserData) -> Iterator[tuple[str, str]]:
    """Yield (folder, path) of the file system that user data tells the node to mount."""
    said = boot.told(data)
    text = data.files.get(boot.NODE_FILE, {}).get("text", "")
    files: Mapping[str, Any] = said.get("files") or {}
    path = files.get("path") or said.get("file_system_mount")
    identifier = files.get("id") or next(iter(_FILE_SYSTEM.findall(text)), None)
    if path and identifier:
        yield str(storage.file_system(str(identifier))), str(path)
