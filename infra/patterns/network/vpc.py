"""One VPC with one private subnet in one zone, for nodes that have to be close to each other.

L1 resources: the L2 VPC picks its own zones if the account is not known, and zones are declared here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Protocol

from aws_cdk import CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from slipway.infra.declare.types import Cluster, Egress
from slipway.infra.patterns.access.roles import ServiceRole
from slipway.infra.patterns.encryption import EncryptedLogGroup, removal_policy, write_logs
from slipway.infra.patterns.statements import allow
from slipway.jobs.words.errors import SlipwayError

_LONGEST_SUBNET_PREFIX = 28  # VPC user guide, "Subnet sizing for IPv4": /16 to /28
_ANYWHERE = "0.0.0.0/0"


class NodeVpc(Protocol):
    """Describes what nodes need of a VPC, whoever made it."""

    @property
    def vpc_id(self) -> str: ...

    @property
    def private_subnet_id(self) -> str: ...


class Vpc(Construct):
    """Gives nodes no public address: EC2 gives none to an instance with several network interfaces."""

    def __init__(
        self, scope: Construct, id: str, *, cidr: str, zone: str, egress: Egress, keep: bool = False
    ) -> None:
        super().__init__(scope, id)
        private_cidr, public_cidr = subnet_cidrs(cidr, egress)
        self.private_cidr = private_cidr
        self.resource = ec2.CfnVPC(
            self,
            "Resource",
            cidr_block=cidr,
            enable_dns_hostnames=True,  # private DNS of interface endpoints, and EFS by name, need both
            enable_dns_support=True,
            tags=[CfnTag(key="Name", value=Stack.of(self).stack_name)],
        )
        self.vpc_id = self.resource.ref
        self.private_subnet = _subnet(self, "Private", cidr=private_cidr, zone=zone)
        self.private_subnet_id = self.private_subnet.ref
        if keep:  # EC2 deletes no subnet in which a file system that was kept has its interface
            for kept in (self.resource, self.private_subnet):
                kept.apply_removal_policy(removal_policy(keep))
        self.route_tables = [_route_table(self, "PrivateRoutes", self.private_subnet)]
        if public_cidr is not None:
            self.route_tables.append(_add_nat(self, public_cidr, zone))


# The default security group of the VPC stays as AWS makes it: all traffic from its own members, all out.
# Batch puts the extra network interface of every multi-node task into the groups of the compute environment,
# or into the default group if it names none; ours can name none, because EC2 refuses groups together with a
# launch template's network interfaces (AWS Batch user guide, "Multi-node compute environments"). So tasks
# reach each other by the default group's rule for itself. It cannot be declared here: EC2 refuses a rule that
# exists already, and emptying the group takes a custom resource. An account whose rules empty default groups
# (Security Hub EC2.2, AWS Control Tower) breaks every multi-node job: its ranks cannot connect.


def subnet_cidrs(vpc_cidr: str, egress: Egress) -> tuple[str, str | None]:
    """Give the private subnet the lower half; the upper half is for a public subnet, and for later."""
    network = IPv4Network(vpc_cidr)
    if network.prefixlen >= _LONGEST_SUBNET_PREFIX:
        if egress is Egress.NAT:
            raise SlipwayError(
                f"vpc_cidr is {vpc_cidr}, too small for the second subnet that egress NAT needs; the "
                f"smallest subnet is a /{_LONGEST_SUBNET_PREFIX}",
                hint=f"use a /{_LONGEST_SUBNET_PREFIX - 1} or larger, or Egress.ENDPOINTS",
            )
        return vpc_cidr, None
    lower, upper = network.subnets(prefixlen_diff=1)
    if egress is not Egress.NAT:
        return str(lower), None
    public = next(upper.subnets(new_prefix=_LONGEST_SUBNET_PREFIX))
    return str(lower), str(public)


def _subnet(vpc: Vpc, id: str, *, cidr: str, zone: str) -> ec2.CfnSubnet:
    return ec2.CfnSubnet(
        vpc,
        f"{id}Subnet",
        vpc_id=vpc.vpc_id,
        cidr_block=cidr,
        availability_zone=zone,
        map_public_ip_on_launch=False,
        tags=[CfnTag(key="Name", value=id.lower())],
    )


def _route_table(vpc: Vpc, id: str, subnet: ec2.CfnSubnet) -> ec2.CfnRouteTable:
    table = ec2.CfnRouteTable(vpc, id, vpc_id=vpc.vpc_id)
    ec2.CfnSubnetRouteTableAssociation(
        vpc, f"{id}Association", route_table_id=table.ref, subnet_id=subnet.ref
    )
    return table


def _add_nat(vpc: Vpc, public_cidr: str, zone: str) -> ec2.CfnRouteTable:
    """Add the NAT gateway. Its address can be made only after the internet gateway is attached."""
    subnet = _subnet(vpc, "Public", cidr=public_cidr, zone=zone)
    gateway = ec2.CfnInternetGateway(vpc, "InternetGateway")
    attachment = ec2.CfnVPCGatewayAttachment(
        vpc, "InternetGatewayAttachment", vpc_id=vpc.vpc_id, internet_gateway_id=gateway.ref
    )
    public_routes = _route_table(vpc, "PublicRoutes", subnet)
    to_internet = ec2.CfnRoute(
        vpc,
        "PublicDefaultRoute",
        route_table_id=public_routes.ref,
        destination_cidr_block=_ANYWHERE,
        gateway_id=gateway.ref,
    )
    to_internet.add_resource_dependency(attachment)
    address = ec2.CfnEIP(vpc, "NatAddress", domain="vpc")
    address.add_resource_dependency(attachment)
    nat = ec2.CfnNatGateway(vpc, "Nat", subnet_id=subnet.ref, allocation_id=address.attr_allocation_id)
    nat.add_resource_dependency(to_internet)
    ec2.CfnRoute(
        vpc,
        "PrivateDefaultRoute",
        route_table_id=vpc.route_tables[0].ref,
        destination_cidr_block=_ANYWHERE,
        nat_gateway_id=nat.ref,
    )
    return public_routes


# The network that a cluster's network stack makes, or finds, for the cluster's other stacks.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetwork:
    vpc: NodeVpc
    endpoint_security_group_id: str | None  # None: AWS is reached through a NAT gateway
    log_key: kms.IKey


# Makes or finds the network, given the key of the cluster's logs.
NetworkOf = Callable[[Construct, Cluster, kms.IKey], ClusterNetwork]


# The connections in a VPC, recorded in an encrypted log group.


class FlowLogs(Construct):
    def __init__(
        self, scope: Construct, id: str, *, vpc_id: str, key: kms.IKey, retention_days: int, keep: bool
    ) -> None:
        super().__init__(scope, id)
        group = EncryptedLogGroup(self, "Group", key=key, retention_days=retention_days, keep=keep)
        # VPC user guide, "Publish flow logs to CloudWatch Logs": without this the flow log reports an access
        # error.
        describe = allow("FindGroup", "logs:DescribeLogStreams", on=[group.arn, f"{group.arn}:log-stream:*"])
        role = ServiceRole(
            self,
            "Role",
            service="vpc-flow-logs",
            description="Writes the flow logs of the VPC",
            statements=(write_logs(group.arn), describe),
        )
        self.resource = ec2.CfnFlowLog(
            self,
            "Resource",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.name,
            deliver_logs_permission_arn=role.arn,
            max_aggregation_interval=600,
        )
        self.resource.node.add_dependency(role.policy)
