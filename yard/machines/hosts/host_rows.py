"""What `slipway yard hosts` shows. A further column is a line here and one in yard/commands/hosts.py."""

from __future__ import annotations

from typing import Any

from slipway.yard.machines.hosts import firewall, host_store
from slipway.yard.machines.hosts.apart import tier_of
from slipway.yard.machines.hosts.differences import NO_FIREWALL


def hosts() -> list[dict[str, Any]]:
    with host_store.changed:
        known = sorted(
            host_store.hosts.values(), key=lambda host: (host.instance.cluster, host.instance.launched_at)
        )
        return [_host(host) for host in known]


def _not_enforced(*, is_isolated: bool) -> str:
    """Say what isolation a running host lacks."""
    if not is_isolated:
        return "no machine of its own: see `slipway yard status`"
    return "" if firewall.is_enforced() else f"not enforced: {NO_FIREWALL}"


def _host(host: host_store.Host) -> dict[str, Any]:
    instance = host.instance
    is_isolated = tier_of(instance.tags).isolated
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
        "firewall": "security groups" if is_isolated and firewall.is_enforced() else "none",
        "why": host.why.strip().rpartition("\n")[2] or _not_enforced(is_isolated=is_isolated),
    }
