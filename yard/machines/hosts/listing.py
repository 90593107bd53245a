"""What `slipway yard hosts` shows. A further column is a line here and one in yard/commands/hosts.py."""

from __future__ import annotations

from typing import Any

from slipway.yard.machines.hosts import book, firewall
from slipway.yard.machines.hosts.imitation import NO_FIREWALL
from slipway.yard.machines.isolation.tiers import best_tier


def hosts() -> list[dict[str, Any]]:
    with book.changed:
        known = sorted(book.hosts.values(), key=lambda host: (host.machine.cluster, host.machine.launched_at))
        return [_host(host) for host in known]


def _not_enforced() -> str:
    """Of a host that runs: what it is without."""
    if not best_tier().isolated:
        return "no machine of its own: see `slipway yard status`"
    return "" if firewall.is_enforced() else f"not enforced: {NO_FIREWALL}"


def _host(host: book.Host) -> dict[str, Any]:
    machine = host.machine
    return {
        "name": machine.name,
        "instance": machine.id,
        "address": machine.address,
        "cluster": machine.cluster,
        "group": machine.group,
        "region": machine.region,
        "state": host.state,
        "root": host.root,
        "firewall": "security groups" if firewall.is_enforced() else "none",
        "why": host.why.strip().rpartition("\n")[2] or _not_enforced(),
    }
