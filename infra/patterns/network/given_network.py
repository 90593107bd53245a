"""Puts nodes in a VPC that is its owner's, and checks what can be seen of it: whether they can work there.

Routes, DNS and endpoints of an imported VPC cannot be seen here: its owner is responsible for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from aws_cdk import Token
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.checks.networks import addresses_needed
from slipway.infra.declare.types import BatchCluster, Cluster, Egress
from slipway.infra.patterns.network.endpoints import S3Endpoint, interface_endpoints
from slipway.infra.patterns.network.vpc import ClusterNetwork, FlowLogs, Vpc
from slipway.jobs.words.errors import SlipwayError

# The id that the CDK gives a VPC that is being looked up: the app runs again after the lookup.
_NOT_LOOKED_UP_YET = "vpc-12345"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVpc:
    vpc_id: str
    private_subnet_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNetwork:
    """Hold what the owner of a VPC gives a cluster."""

    vpc: ec2.IVpc
    subnet: ec2.ISubnet | None  # of the nodes; None: the private one in the cluster's zone
    endpoints: ec2.ISecurityGroup | None  # the group of the VPC's interface endpoints

    def network(self, _scope: Construct, cluster: Cluster, log_key: kms.IKey) -> ClusterNetwork:
        """Return the network for the cluster's nodes, or say what the VPC lacks for their services."""
        vpc = self.vpc
        _refuse_closed(cluster, self.endpoints)
        if isinstance(vpc, ec2.Vpc):
            _refuse_settings(cluster, vpc)
        if vpc.vpc_id == _NOT_LOOKED_UP_YET:
            chosen = [*vpc.private_subnets, *vpc.isolated_subnets][0]
        else:
            chosen = _in_zone(cluster, [self.subnet] if self.subnet else _private_subnets(cluster, vpc))
            _refuse_public(cluster, vpc, chosen)
            _refuse_narrow(cluster, vpc, chosen)
        group = self.endpoints if cluster.egress is Egress.ENDPOINTS else None
        return ClusterNetwork(
            vpc=GivenVpc(vpc_id=vpc.vpc_id, private_subnet_id=chosen.subnet_id),
            endpoint_security_group_id=group.security_group_id if group else None,
            log_key=log_key,
        )


def _refuse_closed(cluster: Cluster, endpoints: ec2.ISecurityGroup | None) -> None:
    """Require the owner's endpoints: a second one of a service would be refused for its private DNS name."""
    if cluster.egress is Egress.ENDPOINTS and cluster.services and endpoints is None:
        raise SlipwayError(
            f"cluster '{cluster.name}' has Egress.ENDPOINTS in a VPC of yours, and no security group of "
            "interface endpoints is given",
            hint="set egress=Egress.NAT, or give endpoints=, the group of endpoints for "
            f"{', '.join(cluster.services)}",
        )


def _refuse_settings(cluster: Cluster, vpc: ec2.Vpc) -> None:
    """Check a VPC that the same app makes."""
    resource = vpc.node.default_child
    assert isinstance(resource, ec2.CfnVPC), "the L2 makes one"
    if resource.enable_dns_support is False or resource.enable_dns_hostnames is False:
        raise SlipwayError(
            f"the VPC of cluster '{cluster.name}' has no DNS, by which nodes find file systems and endpoints",
            hint="leave enable_dns_support and enable_dns_hostnames of the ec2.Vpc on",
        )
    emptied = vpc.node.try_find_child("RestrictDefaultSecurityGroupCustomResource")
    if isinstance(cluster, BatchCluster) and emptied is not None:
        raise SlipwayError(
            f"the VPC of cluster '{cluster.name}' empties its default security group, through which the "
            "nodes of a job on AWS Batch reach each other",
            hint="set restrict_default_security_group=False on the ec2.Vpc",
        )


def _private_subnets(cluster: Cluster, vpc: ec2.IVpc) -> Sequence[ec2.ISubnet]:
    reaches_out = cluster.egress is Egress.NAT
    found = [*vpc.private_subnets, *([] if reaches_out else vpc.isolated_subnets)]
    if not found:
        way = "with a NAT gateway" if reaches_out else "at all"
        raise SlipwayError(
            f"the VPC of cluster '{cluster.name}' has no private subnet {way}, and nodes with several "
            "network interfaces get no public address",
            hint="add a SubnetType.PRIVATE_WITH_EGRESS, or name the private_subnet_ids of an imported VPC",
        )
    return found


def _in_zone(cluster: Cluster, subnets: Sequence[ec2.ISubnet]) -> ec2.ISubnet:
    zones = {_zone(cluster, subnet): subnet for subnet in reversed(subnets)}
    if cluster.zone not in zones:
        raise SlipwayError(
            f"the VPC of cluster '{cluster.name}' has private subnets in {', '.join(sorted(zones))} and "
            f"none in {cluster.zone}, the zone of the cluster",
            hint=f"add one in {cluster.zone}, or change the cluster's zone if that one has the instance type",
        )
    return zones[cluster.zone]


def _zone(cluster: Cluster, subnet: ec2.ISubnet) -> str:
    try:
        zone = subnet.availability_zone
    except RuntimeError:  # the CDK's own, for a subnet that was imported only by its id
        zone = ""
    # A list entry known only at deployment looks like a known text to is_unresolved.
    if not zone or Token.is_unresolved([zone]) or Token.is_unresolved(zone):
        raise SlipwayError(
            f"a subnet of cluster '{cluster.name}' does not say its zone before it is deployed",
            hint=f"write availability_zones=['{cluster.zone}'] for the VPC, or import the subnet with "
            "availability_zone=",
        )
    return zone


def _refuse_public(cluster: Cluster, vpc: ec2.IVpc, chosen: ec2.ISubnet) -> None:
    if chosen.subnet_id in {subnet.subnet_id for subnet in vpc.public_subnets}:
        raise SlipwayError(
            f"the subnet given for cluster '{cluster.name}' is public, and its nodes get no public address",
            hint="give a private subnet",
        )


def _refuse_narrow(cluster: Cluster, vpc: ec2.IVpc, chosen: ec2.ISubnet) -> None:
    """Count the addresses of a subnet that the same app makes; an imported one need not have its range."""
    cidr = chosen.ipv4_cidr_block if isinstance(vpc, ec2.Vpc) else None
    if cidr is None or Token.is_unresolved(cidr):
        return
    needed, there = addresses_needed(cluster), IPv4Network(cidr).num_addresses
    if needed > there:
        raise SlipwayError(
            f"the subnet of cluster '{cluster.name}' is {cidr} with {there} addresses, but "
            f"{cluster.max_nodes} nodes need {needed}",
            hint="give it a wider cidr_mask, or the cluster a smaller max_nodes",
        )


# The network that a cluster makes for itself: a VPC, its flow logs, and its ways to AWS.


def make_network(scope: Construct, cluster: Cluster, log_key: kms.IKey) -> ClusterNetwork:
    """Make a VPC whose nodes reach the services of AWS that they call."""
    vpc = Vpc(
        scope,
        "Vpc",
        cidr=cluster.vpc_cidr,
        zone=cluster.zone,
        egress=cluster.egress,
        keep=cluster.keeps_lustre,
    )
    FlowLogs(
        scope,
        "FlowLogs",
        vpc_id=vpc.vpc_id,
        key=log_key,
        retention_days=cluster.log_retention_days,
        keep=cluster.keep_data,
    )
    S3Endpoint(scope, "S3Endpoint", region=cluster.region, vpc=vpc)
    endpoints = interface_endpoints(scope, cluster, vpc)
    return ClusterNetwork(vpc=vpc, endpoint_security_group_id=endpoints, log_key=log_key)
