"""What `slipway yard hosts` shows, and how hosts differ from EC2's.

To add a column: a line in _host and one in yard/commands/hosts.py.
"""

from __future__ import annotations

from typing import Any

from slipway.yard.machines import storage
from slipway.yard.machines.hosts import boot_ways, firewall, host_store
from slipway.yard.machines.hosts.boot_ways import tier_of
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import best_tier


def hosts() -> list[dict[str, Any]]:
    with host_store.changed:
        known = sorted(
            host_store.hosts.values(), key=lambda host: (host.instance.cluster, host.instance.launched_at)
        )
        return [_host(host) for host in known]


def _host(host: host_store.Host) -> dict[str, Any]:
    instance = host.instance
    is_isolated = tier_of(instance.tags).isolated
    is_enforced = is_isolated and firewall.is_enforced()
    lacking = (
        f"not enforced: {NO_FIREWALL}" if is_isolated else "no machine of its own: see `slipway yard status`"
    )
    return {
        "name": instance.name,
        "instance": instance.id,
        "address": instance.address,
        "cluster": instance.cluster,
        "group": instance.group,
        "region": instance.region,
        "state": host.state,
        "root": host.root,
        "boot": host.boots,
        "firewall": "security groups" if is_enforced else "none",
        "why": host.why.strip().rpartition("\n")[2] or ("" if is_enforced else lacking),
    }


# How a host of the yard differs from an EC2 instance. `slipway yard status` prints it.
LEFT_OUT = (
    "EFA and RDMA: hosts talk TCP over one bridge, at the speed of this machine's memory",
    "the processor: each host gets one of this machine's in turn, with its instruction sets",
    "the kernel, its modules and settings: they are this machine's, read-only",
    "the AMI: unless it was baked here, / is this machine's, the venv is this checkout's, and aws the yard's",
    "disks: what a host writes stays in memory until it ends, also when it is stopped; it has no other disk",
    "file systems: mount -t efs and -t lustre mount a folder of this machine, without servers and backups",
    "limits: all hosts share memory, which is not counted",
    "IPv6, and security groups of all interfaces but the first",
    "the way to AWS: only VPCs with endpoints are held to them, and a missing one hangs up at once",
    "nft: a host's root changes firewall tables of its own by `nft -f -`, and sees none",
    "routes, NAT and network ACLs: all subnets of a VPC are one network without a way out",
    "DNS: the VPC's server knows its hosts and no endpoint of AWS's; where boot is imitated there is none",
    "Auto Scaling: scheduled actions and lifecycle hooks are recorded but do nothing",
    "Run Command: aws:runShellScript only; no output to S3, no rate controls",
    "sessions: a program of the yard's enters the host, as root, in place of AWS's session-manager-plugin",
    "EC2 Instance Connect: the signature of a key, and where the yard does not run as root any key",
)

# Differences where the boot is imitated (boot_ways.py).
IMITATED = (
    "systemd and its journal: the host starts sshd and slipway-node, but no other unit of the AMI; no reboot",
    "logind: sshd asks PAM, but a log-in is no session, and nothing is removed when a user's last one ends",
    "cloud-init: user data's scripts run, and write_files of its #cloud-config, but nothing else of it",
)
# Differences where systemd boots.
BOOTED = (
    "the hardware: cloud-init is in a container, and asks for EC2's metadata without a token, at port 8773",
    "the network's set-up: there is no DHCP; the address, the route and the name server are there at boot",
)

# Differences where there are no namespaces (planning/plain.py).
NOT_ENFORCED = (
    "security groups: every user of this machine can reach every host, at 127.x.y.z (ssh: port 2222)",
    "machines: hosts share the network, the hostname, the processes and the files of this machine",
    "PAM: sshd does not ask it, for the sessions would be this machine's",
    "user data: its files are written to the host's own folder, but its scripts do not run",
)

# A difference where the yard does not run as root.
ONE_USER = "jobs: a host has one user, so its jobs can read the cluster's secret and have the node's role"

NO_FIREWALL = (
    "security groups: this machine has no nft; install it with `python3 scripts/set_up.py machine` (as root)"
)


def described() -> list[str]:
    tier = best_tier()
    alone = NOT_ENFORCED if not tier.isolated else () if firewall.is_enforced() else (NO_FIREWALL,)
    of_users = () if tier.name == "root" else (ONE_USER,)
    return [
        f"isolation: {tier.words}",
        boot_ways.described(),
        f"homes: {home.WORDS[tier.isolated]}",
        *(f"not enforced: {what}" for what in (*alone, *of_users)),
        f"shared file systems (one folder each): {storage.file_systems()}",
        *(f"left out: {what}" for what in (*(IMITATED if boot_ways.obstacle("") else BOOTED), *LEFT_OUT)),
    ]
