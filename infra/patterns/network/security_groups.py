"""Security groups that allow what is named and nothing else. Rules between groups are L1 resources.

The L2 silently drops add_egress_rule(self), and EFA needs that rule: the group must allow traffic from and to
itself, which 0.0.0.0/0 does not cover (EC2 user guide, "Elastic Fabric Adapter").
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.s3_prefix_lists import s3_prefix_list
from slipway.infra.declare.types import Cluster, Egress
from slipway.infra.patterns.network.vpc import ClusterNetwork

# EC2 gives a group that lists no egress a rule that allows everything. This rule allows nothing that leaves
# the host.
NOTHING = ec2.CfnSecurityGroup.EgressProperty(
    ip_protocol="icmp", from_port=252, to_port=86, cidr_ip="255.255.255.255/32", description="Nothing"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    first: int
    last: int


class NodeSecurityGroup(Construct):
    """Allows all traffic between nodes, HTTPS to AWS, ssh as declared, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: Cluster,
        network: ClusterNetwork,
        ssh_cidrs: tuple[str, ...],
    ) -> None:
        super().__init__(scope, id)
        self.resource = ec2.CfnSecurityGroup(
            self,
            "Resource",
            group_description="Nodes: all traffic among themselves, HTTPS to AWS",
            vpc_id=network.vpc.vpc_id,
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp", from_port=22, to_port=22, cidr_ip=cidr, description="ssh, as declared"
                )
                for cidr in ssh_cidrs
            ]
            or None,
            security_group_egress=[_https_out(cluster)],
        )
        self.group_id = self.resource.attr_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "FromNodes",
            group_id=self.group_id,
            ip_protocol="-1",
            source_security_group_id=self.group_id,
            description="EFA: all traffic between nodes",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "ToNodes",
            group_id=self.group_id,
            ip_protocol="-1",
            destination_security_group_id=self.group_id,
            description="EFA: all traffic between nodes",
        )
        if network.endpoint_security_group_id is not None:
            ec2.CfnSecurityGroupEgress(
                self,
                "ToEndpoints",
                group_id=self.group_id,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                destination_security_group_id=network.endpoint_security_group_id,
                description="HTTPS to the interface endpoints",
            )


def _https_out(cluster: Cluster) -> ec2.CfnSecurityGroup.EgressProperty:
    if cluster.egress is Egress.NAT:
        return ec2.CfnSecurityGroup.EgressProperty(
            ip_protocol="tcp", from_port=443, to_port=443, cidr_ip="0.0.0.0/0", description="HTTPS"
        )
    return ec2.CfnSecurityGroup.EgressProperty(
        ip_protocol="tcp",
        from_port=443,
        to_port=443,
        destination_prefix_list_id=s3_prefix_list(cluster.region),
        description="HTTPS to S3",
    )


def allow(scope: Construct, id: str, *, client: str, server: str, ports: PortRange) -> None:
    """Let one group open connections to another: out of the client's, and into the server's."""
    ec2.CfnSecurityGroupEgress(
        scope,
        f"{id}{ports.first}Out",
        group_id=client,
        ip_protocol="tcp",
        from_port=ports.first,
        to_port=ports.last,
        destination_security_group_id=server,
        description=f"{id} out",
    )
    ec2.CfnSecurityGroupIngress(
        scope,
        f"{id}{ports.first}In",
        group_id=server,
        ip_protocol="tcp",
        from_port=ports.first,
        to_port=ports.last,
        source_security_group_id=client,
        description=f"{id} in",
    )
