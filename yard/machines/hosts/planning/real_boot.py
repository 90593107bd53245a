"""Changes the tree of a host that boots systemd and cloud-init, where it has to differ from its AMI.

To add a file for every such host: a line of `files`. A host that boots this machine's own files starts the
units of an AMI, not those that this machine runs: a Debian unit that each host starts is a line of _ENABLED.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files as files_of
from pathlib import Path
from typing import Any

from slipway.jobs.words import slurm
from slipway.yard import bounded_yaml
from slipway.yard.machines import storage
from slipway.yard.machines.hosts.host_store import HostInstance
from slipway.yard.machines.hosts.inside import cgroups, nft_door
from slipway.yard.machines.hosts.planning import systemd
from slipway.yard.machines.isolation.tiers import programs

OPEN_PORT = 8773  # once a port of EC2's metadata service; cloud-init still knows http://instance-data:8773
RUN = "/run/yard"
FILE_SYSTEMS = f"{RUN}/file-systems"
# In a container cloud-init does not detect EC2, so it requests no token. It has a port of its own that needs
# no token and gives no credentials (machines/hosts/metadata.py). The address is up when the host starts.
CLOUD_CONFIG = f"""\
# The yard's.
datasource_list: [Ec2]
datasource:
  Ec2:
    strict_id: false
    metadata_urls: ["http://169.254.169.254:{OPEN_PORT}"]
network: {{config: disabled}}
growpart: {{mode: "off"}}
resize_rootfs: false
locale: "false"
ssh_genkeytypes: [ed25519]
"""
# Replaces mount.efs and mount.lustre, which need AWS's servers.
MOUNT_HELPER = f"""\
#!/bin/sh
# The yard's: a file system of AWS is a folder here.
set -eu
folder="{FILE_SYSTEMS}/${{1%%[.:]*}}"
if [ ! -d "$folder" ]; then
  echo "mount.${{0##*.}}: there is no file system ${{1%%[.:]*}}" >&2
  exit 32
fi
exec mount --bind "$folder" "$2"
"""
# A unit of nfs-common for NFS in the kernel. AWS's mount.efs needs it, the one above does not, and this
# machine's kernel may lack NFS.
_MASKED = ("run-rpc_pipefs.mount",)
# Hides this machine's disks: user data would make file systems on disks that it finds here.
_DISKS = ("/sys/block", "/sys/class/block", "/sys/dev/block")


def plan(instance: HostInstance, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of a host's plan that systemd-nspawn reads."""
    network = ipaddress.ip_network(f"{instance.address}/{instance.prefix_length}", strict=False)
    return {
        "boots": "systemd",
        "name": instance.name,
        "uuid": f"{instance.id[2:]:0>32}",
        "cgroup": cgroups.name(os.getpid(), instance.id),
        "resolver": str(network.network_address + 2),  # VPC user guide, "Amazon DNS server"
        "open_port": OPEN_PORT,
        "path": programs(),
        "emptied": [path for path in _DISKS if Path(path).is_dir()],
        "environment": dict(environment),
    }


def of_tree(
    tree: Mapping[str, Any], *, is_own: bool, is_slurm: bool, is_bare: bool = False
) -> dict[str, Any]:
    """Return the part about files, derived from that of a host whose boot is imitated."""
    doors = str(Path(nft_door.DOOR).parent)  # the folder of the nft helper's socket
    storage.file_systems().mkdir(parents=True, exist_ok=True)
    mounts = [*tree["mounts"], (str(storage.file_systems()), FILE_SYSTEMS), (doors, doors)]
    writable = [(source, target) for source, target in mounts if source not in tree["read_only"]]
    changed: Mapping[str, Any] = {"removed": [], "links": {}, "written": {}}
    if is_own:
        changed = units(is_slurm=is_slurm, is_bare=is_bare)
    return {
        **tree,
        "mounts": writable,
        "read_only": [(path, path) for path in tree["read_only"]],
        "removed": [*tree["removed"], *changed["removed"]],
        "links": {
            **tree["links"],
            **changed["links"],
            **{f"{UNITS}/{unit}": "/dev/null" for unit in _MASKED},
        },
        "written": {**tree["written"], **changed["written"]},
    }


def files(environment: Mapping[str, str], resolver: str, domain: str) -> dict[str, dict[str, Any]]:
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items() if name not in _PLAIN)
    return {
        "/etc/cloud/cloud.cfg.d/99_yard.cfg": _file(CLOUD_CONFIG),
        "/etc/cloud/ds-identify.cfg": _file("policy: enabled\n"),
        "/etc/resolv.conf": _file(f"nameserver {resolver}\nsearch {domain}\n"),
        "/etc/systemd/system.conf.d/99-yard.conf": _file(f"[Manager]\nDefaultEnvironment={variables}\n"),
        "/usr/local/sbin/nft": _file(systemd.NFT, 0o755),
        "/usr/sbin/mount.efs": _file(MOUNT_HELPER, 0o755),
        "/usr/sbin/mount.lustre": _file(MOUNT_HELPER, 0o755),
    }


_PLAIN = ("PATH", "HOME", "LANG")  # left out: systemd sets its own


def _file(text: str, mode: int = 0o644) -> dict[str, Any]:
    return {"text": text, "mode": mode}


# The units of a host that boots this machine's own files. A host must not start this machine's databases and
# timers; our own units are taken from the image's component unchanged.
UNITS = "/etc/systemd/system"
VENDOR = "/lib/systemd/system"
# Unit -> the folder in which Debian's package links it to enable it.
_ENABLED = {
    "cloud-init-local.service": "cloud-init.target.wants",
    "cloud-init.service": "cloud-init.target.wants",
    "cloud-config.service": "cloud-init.target.wants",
    "cloud-final.service": "cloud-init.target.wants",
    "ssh.service": "multi-user.target.wants",
}
_LINKS = {
    f"{UNITS}/default.target": f"{VENDOR}/multi-user.target",
    f"{UNITS}/sshd.service": f"{VENDOR}/ssh.service",  # cloud-init is ordered before this name
}
# Removed from the host's tree: this machine's units, disks and logs, and its cloud-init's settings and state.
_REMOVED = (
    "/etc/cloud/cloud-init.disabled",
    "/etc/crypttab",
    "/etc/fstab",
    "/etc/init.d",
    "/etc/systemd",
    "/var/lib/cloud",
    "/var/lib/systemd",
    "/var/log/journal",
)
# systemctl(1), enable: key in [Install] -> suffix of the folder that gets a link.
_INSTALL = {"WantedBy": "wants", "RequiredBy": "requires"}


def units(*, is_slurm: bool, is_bare: bool = False) -> dict[str, Any]:
    """Return the part of a host's plan with its units; a bare host gets ours from its user data."""
    written = {} if is_bare else _image_files(is_slurm=is_slurm)
    links = {f"{UNITS}/{wants}/{unit}": f"{VENDOR}/{unit}" for unit, wants in _ENABLED.items()}
    logs = Path("/var/log").glob("cloud-init*")
    found = Path("/etc/cloud/cloud.cfg.d").glob("*.cfg")
    settings = [path for path in found if path.name != "05_logging.cfg"]  # that is of its Debian package
    return {
        "removed": [*_REMOVED, *map(str, (*Path("/etc").glob("rc?.d"), *logs, *settings))],
        "links": {**links, **_LINKS, **dict(_wanted(written))},
        "written": written,
    }


@lru_cache(maxsize=2)
def _image_files(*, is_slurm: bool) -> dict[str, dict[str, Any]]:
    """Return the files that a bake would write: path -> text and mode."""
    return {
        # For Slurm's daemons: files relative to /.
        **dict(_tree("infra/boot/agents/slurm") if is_slurm else _of_component()),
        # What the component node-boot installs, and what is in a Slurm cluster's AMI.
        **dict(_installed("infra/boot", "/usr/lib/slipway", 0o755)),
        **dict(_installed("infra/boot/units", "/usr/lib/systemd/system", 0o644)),
        **dict(_installed("jobs/platforms/slurm/scripts", slurm.SCRIPTS, 0o755)),
    }


def _of_component() -> Iterator[tuple[str, dict[str, Any]]]:
    text = files_of("slipway").joinpath("infra/components/slipway-node.yaml").read_text(encoding="utf-8")
    phases = {phase["name"]: phase["steps"] for phase in bounded_yaml.load(text)["phases"]}
    given = [file for step in phases["build"] if step["action"] == "CreateFile" for file in step["inputs"]]
    for file in given:
        mode = file.get("permissions", 0o644)  # YAML reads 0644 as an octal number, but "0644" as text
        yield file["path"], {"text": file["content"], "mode": mode if isinstance(mode, int) else int(mode, 8)}


def _tree(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = Path(str(files_of("slipway").joinpath(source)))
    for file in folder.rglob("*.conf"):
        yield f"/{file.relative_to(folder)}", {"text": file.read_text(encoding="utf-8"), "mode": 0o644}


def _installed(source: str, target: str, mode: int) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = files_of("slipway").joinpath(source)
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.is_file():
            yield f"{target}/{file.name}", {"text": file.read_text(encoding="utf-8"), "mode": mode}


def _wanted(written: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the links that `systemctl enable` makes."""
    for path, file in written.items():
        for word, kind in _INSTALL.items():
            for targets in re.findall(rf"^{word}=(.*)$", file["text"], re.MULTILINE):
                for target in targets.split():
                    yield f"{UNITS}/{target}.{kind}/{Path(path).name}", path
