"""Changes the tree of a host that boots systemd and cloud-init, where it has to differ from its AMI.

To add a file for every such host: a line of `files`. What only this machine's files need is in own_units.py.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.yard.machines import storage
from slipway.yard.machines.hosts.host_store import HostInstance
from slipway.yard.machines.hosts.inside import cgroups, nft_door
from slipway.yard.machines.hosts.planning import own_units, systemd
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
        changed = own_units.plan(is_slurm=is_slurm, is_bare=is_bare)
    return {
        **tree,
        "mounts": writable,
        "read_only": [(path, path) for path in tree["read_only"]],
        "removed": [*tree["removed"], *changed["removed"]],
        "links": {
            **tree["links"],
            **changed["links"],
            **{f"{own_units.UNITS}/{unit}": "/dev/null" for unit in _MASKED},
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
