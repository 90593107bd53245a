"""What a host of the yard leaves out of an EC2 instance. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines import storage
from slipway.yard.machines.hosts import firewall
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import best_tier

LEFT_OUT = (
    "EFA and RDMA: the network is this machine's memory, TCP over one bridge, as fast as it is",
    "the processor: it is one of this machine's, which hosts take in turn, and its instruction sets",
    "the kernel, its modules and settings: they are this machine's, and read-only",
    "systemd and its journal: init starts sshd and slipway-node, and no other unit of the machine image",
    "the machine image: where none was baked here, / is this machine's and /opt/slipway/venv this checkout's",
    "disks: what a host writes is kept in memory until it ends; mount reaches no file system of AWS",
    "limits: memory is shared by all hosts, and not counted",
    "roles: every host acts with a key of its own, and no policy is looked at",
    "security groups of other interfaces than the first, and IPv6",
    "the VPC's DNS, routes, NAT and network ACLs: all subnets of a VPC are one link, and nothing leads out",
    "Auto Scaling: scheduled actions, alarms and lifecycle hooks are kept, and nothing comes of them",
    "Run Command: aws:runShellScript only; no output to S3, no rate controls",
)

# Where there are no namespaces (planning/plain.py).
NOT_ENFORCED = (
    "security groups: whoever is on this machine reaches every host, at 127.x.y.z and port 2222 for ssh",
    "machines: hosts share the network, the hostname, the processes and the files of this machine",
    "user data: its files are written to the host's own folder, and its scripts are not run",
)

NO_FIREWALL = (
    "security groups: nft is not on this machine; "
    "install it with `python3 scripts/set_up.py machine` (as root)"
)


def described() -> list[str]:
    tier = best_tier()
    alone = NOT_ENFORCED if not tier.isolated else () if firewall.is_enforced() else (NO_FIREWALL,)
    return [
        f"isolation: {tier.words}",
        f"homes: {home.WORDS[tier.isolated]}",
        *(f"not enforced: {each}" for each in alone),
        f"the files that hosts share, a folder for each file system: {storage.file_systems()}",
        *(f"left out: {each}" for each in LEFT_OUT),
    ]
