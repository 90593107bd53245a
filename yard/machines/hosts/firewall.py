"""Writes an instance's security groups as nftables rules: packets that no rule allows are silently dropped.

A protocol with ports is a line of _WITH_PORTS.
"""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slipway.yard.machines.isolation.tiers import best_tier, programs

ANY = "-1"
_WITH_PORTS = ("tcp", "udp")
_BY_NUMBER = {"icmp": "icmp", "icmpv6": "ipv6-icmp", "58": "ipv6-icmp"}
_FAMILIES = {4: "ip", 6: "ip6"}
# Direction of a rule -> chain, nft's word for the interface, nft's word for the peer's address.
_CHAINS = {"ingress": ("input", "iif", "saddr"), "egress": ("output", "oif", "daddr")}


def is_enforced() -> bool:
    """Return True if this machine can enforce security groups."""
    return best_tier().isolated and shutil.which("nft", path=programs()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One permission of one security group."""

    way: str  # ingress or egress
    protocol: str  # tcp, udp, icmp, a number, or ANY
    first: int | None  # first port; None: all ports
    last: int | None
    peers: tuple[str, ...]  # networks in CIDR notation


def ruleset(rules: Iterable[Rule]) -> str:
    """Write the rules for `nft -f`, which applies all at once; as on EC2, open connections stay open."""
    given = tuple(rules)
    chains = ""
    for way, (hook, interface, _) in _CHAINS.items():
        tracked = "ct state established,related accept"
        lines = sorted({line for rule in given if rule.way == way for line in _lines(rule)})
        body = "".join(f"    {line}\n" for line in [f"{interface} lo accept", tracked, *lines])
        chains += f"  chain {way} {{\n    type filter hook {hook} priority 0; policy drop;\n{body}  }}\n"
    mine = "table inet security_groups"  # not one of the host's own tables
    return f"{mine} {{}}\ndelete {mine}\n{mine} {{\n{chains}}}\n"


def _lines(rule: Rule) -> Iterator[str]:
    address = _CHAINS[rule.way][2]
    for version, family in _FAMILIES.items():
        # Overlapping networks are merged: nft refuses them in one set.
        given = [ipaddress.ip_network(peer, strict=False) for peer in rule.peers]
        chosen = [network for network in given if network.version == version]
        networks = sorted(map(str, ipaddress.collapse_addresses(chosen)))  # type: ignore[type-var]  # of one version
        if networks:
            yield f"{family} {address} {{ {', '.join(networks)} }} {_matched(rule)}accept"


def _matched(rule: Rule) -> str:
    if rule.protocol == ANY:
        return ""
    if rule.protocol in _WITH_PORTS:
        has_all = rule.first in (None, -1) or (rule.first, rule.last) == (0, 65535)
        ports = "" if has_all else f" dport {rule.first}-{rule.last}"
        return f"meta l4proto {rule.protocol}{f' {rule.protocol}{ports}' if ports else ''} "
    return f"meta l4proto {_BY_NUMBER.get(rule.protocol, rule.protocol)} "
