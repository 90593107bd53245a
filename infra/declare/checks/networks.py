"""The address ranges of a cluster: of a size that a VPC takes, private, and apart from what it must reach."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from slipway.infra.declare.checks.cidrs import ipv4_network, no_ipv4_network
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem

# RFC 1918, and RFC 6598, which AWS takes as well (https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html).
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
# Five addresses of a subnet are AWS's (VPC user guide, "Subnet sizing"); up to fifteen are of endpoints.
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
    """Count the addresses that all nodes, their containers and AWS take of the private subnet."""
    type_ = instance_type(cluster.instance_type)
    interfaces = type_.efa_interfaces if cluster.efa_interfaces is None else cluster.efa_interfaces
    return cluster.max_nodes * (max(interfaces, 1) + 1) + _TAKEN_BY_AWS


def room_for_every_node(cluster: Cluster) -> Iterator[Problem]:
    """Check that every interface and container of all nodes gets an address of the private subnet."""
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
        hint=f"use a /{prefix}"
        if prefix >= 16
        else "no VPC is large enough: lower max_nodes or efa_interfaces",
    )
