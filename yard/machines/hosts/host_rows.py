"""What `slipway yard hosts` shows. A further column is a line here and one in yard/commands/hosts.py."""

from __future__ import annotations

from typing import Any

from slipway.yard.machines.hosts import firewall, host_store
from slipway.yard.machines.hosts.differences import NO_FIREWALL
from slipway.yard.machines.isolation.tiers import best_tier


def hosts() -> list[dict[str, Any]]:
    with host_store.changed:
        known = sorted(
            host_store.hosts.values(), key=lambda host: (host.instance.cluster, host.instance.launched_at)
        )
        return [_host(host) for host in known]


def _not_enforced() -> str:
    """Say what isolation a running host lacks."""
    if not best_tier().isolated:
        return "no machine of its own: see `slipway yard status`"
    return "" if firewall.is_enforced() else f"not enforced: {NO_FIREWALL}"


def _host(host: host_store.Host) -> dict[str, Any]:
    instance = host.instance
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
        "firewall": "security groups" if firewall.is_enforced() else "none",
        "why": host.why.strip().rpartition("\n")[2] or _not_enforced(),
    }
