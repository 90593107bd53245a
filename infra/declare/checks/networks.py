"""Checks the address ranges of a cluster: of a VPC's size, private, and apart from networks it must reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from slipway.infra.declare.checks.values import shown
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import Problem

# RFC 1918, and RFC 6598, which AWS takes as well (https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html).
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
# AWS uses five addresses of a subnet (VPC user guide, "Subnet sizing"), and endpoints up to fifteen.
_TAKEN_BY_AWS = 20
_DOCKER_BRIDGE = IPv4Network("172.17.0.0/16")


def vpc_cidr(cluster: Cluster) -> Iterator[Problem]:
    where = "vpc_cidr"
    network = ipv4_network(cluster.vpc_cidr)
    if network is None:
        yield no_ipv4_network(where, cluster.vpc_cidr)
        return
    if not 16 <= network.prefixlen <= 28:
        message = f"is {network}, a /{network.prefixlen}; a VPC is a /16 to a /28"
        yield Problem(where=where, message=message, hint=f"use {network.network_address}/16")
    elif not any(network.subnet_of(private) for private in _PRIVATE):
        allowed = ", ".join(map(str, _PRIVATE))
        yield Problem(where=where, message=f"is {network}, not private", hint=f"use a part of {allowed}")
    if network.overlaps(_DOCKER_BRIDGE) and network.prefixlen >= 16:
        yield Problem(
            where=where,
            message=f"is {network}, which overlaps Docker's bridge on every node, {_DOCKER_BRIDGE}",
            hint="choose another range, or containers cannot reach the hosts in it",
        )


def vpc_apart_from_peers(cluster: Cluster) -> Iterator[Problem]:
    own = ipv4_network(cluster.vpc_cidr)
    for peer in cluster.peer_cidrs:
        other = ipv4_network(peer)
        if other is None:
            yield no_ipv4_network("peer_cidrs", peer)
        elif own is not None and own.overlaps(other):
            yield Problem(
                where="vpc_cidr",
                message=f"is {own} and overlaps the peer network {other}",
                hint="peered networks must not overlap: change one of them",
            )


def addresses_needed(cluster: Cluster) -> int:
    """Count the addresses that all nodes, their containers and AWS use in the private subnet.

    A node has one, on card 0: its other cards have only EFA (infra/patterns/nodes/network_interfaces.py).
    """
    return cluster.max_nodes * 2 + _TAKEN_BY_AWS


def room_for_every_node(cluster: Cluster) -> Iterator[Problem]:
    """Check that all nodes and their containers get an address in the private subnet."""
    network = ipv4_network(cluster.vpc_cidr)
    if network is None:
        return
    needed = addresses_needed(cluster)
    if needed <= network.num_addresses // 2:
        return
    prefix = 32 - (2 * needed - 1).bit_length()
    yield Problem(
        where="vpc_cidr",
        message=f"is {network}, but {cluster.max_nodes} nodes need {needed} addresses in its private half",
        hint=f"use a /{prefix}" if prefix >= 16 else "no VPC is large enough: lower max_nodes",
    )


# Address ranges in a declaration: each has only one allowed spelling.


def ipv4_network(text: str) -> IPv4Network | None:
    """Return the network; None unless it is written as address/prefix without host bits."""
    try:
        found = IPv4Network(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def no_ipv4_network(where: str, text: str, otherwise: str = "") -> Problem:
    """Return what is wrong with a text that is no network, and suggest the one that was probably meant."""
    message = f"is {shown(text)}, not an IPv4 network such as 10.0.0.0/16"
    try:
        hint = f"write {IPv4Network(text.strip(), strict=False)}"
    except ValueError:
        hint = otherwise
    return Problem(where=where, message=f"{message}{_why(text)}", hint=hint)


def _why(text: str) -> str:
    if ":" in text:
        return "; the VPC has no IPv6"
    address, slash, prefix = text.strip().partition("/")
    if any(int(part) > 255 for part in re.findall(r"\d{1,9}", address)):
        return "; each number of an address is 0 to 255"
    if not slash:
        return "; its prefix is missing"
    if re.fullmatch(r"\d{1,9}", prefix) and int(prefix) > 32:
        return "; a prefix is 0 to 32"
    try:
        IPv4Network(text)
    except ValueError as error:
        return "; it has host bits set" if "host bits" in str(error) else ""
    return ""
