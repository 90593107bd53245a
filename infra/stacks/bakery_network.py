"""Where machine images of a region are built: a private subnet that reaches others by HTTPS alone, and logs.

Packages come from many vendors, so this network has a NAT gateway, which costs about 33 dollars a month as
long as the stack is there: `cdk destroy` it when nothing is to be baked for a while. S3 has no gateway
endpoint here: its policy admits this account's buckets only, and AWS's installers are in others.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Egress
from slipway.infra.patterns.declared_stack import DeclaredStack
from slipway.infra.patterns.images.bakery_network import BakeryNetwork
from slipway.infra.patterns.network.flow_logs import FlowLogs, FlowLogsProps
from slipway.infra.patterns.network.vpc import Vpc, VpcProps
from slipway.infra.patterns.storage.encryption import EncryptionKey, EncryptionKeyProps, KeyUser
from slipway.infra.patterns.storage.log_bucket import LogBucket, LogBucketProps

_CIDR = "10.60.0.0/24"  # reached by nobody and peered with nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeryNetworkStackProps:
    image: MachineImage  # the first of its region: all of a region have one account and one zone


class BakeryNetworkStack(DeclaredStack):
    def __init__(self, scope: Construct, id: str, *, props: BakeryNetworkStackProps) -> None:
        image = props.image
        super().__init__(scope, id, declared=image, tags={})
        log_key = EncryptionKey(
            self,
            "LogKey",
            props=EncryptionKeyProps(
                description="Logs of the machine images that Slipway bakes",
                region=image.region,
                users=(KeyUser.LOGS,),
                keep=False,
            ),
        ).key
        vpc = Vpc(
            self,
            "Vpc",
            props=VpcProps(name=id, cidr=_CIDR, zone=image.zone, egress=Egress.NAT),
        )
        FlowLogs(
            self,
            "FlowLogs",
            props=FlowLogsProps(
                vpc_id=vpc.vpc_id, key=log_key, retention_days=image.log_retention_days, keep=False
            ),
        )
        logs = LogBucket(self, "Logs", props=LogBucketProps(retention_days=image.log_retention_days))
        self.network: BakeryNetwork = BakeryNetwork(
            subnet_id=vpc.private_subnet_id,
            security_group_id=_machines(self, vpc.vpc_id).attr_group_id,
            log_bucket=logs.bucket,
            log_key=log_key,
        )


def _machines(stack: BakeryNetworkStack, vpc_id: str) -> ec2.CfnSecurityGroup:
    return ec2.CfnSecurityGroup(
        stack,
        "Machines",
        group_description="Machines that become images: HTTPS out, nothing in",
        vpc_id=vpc_id,
        security_group_egress=[
            ec2.CfnSecurityGroup.EgressProperty(
                ip_protocol="tcp", from_port=443, to_port=443, cidr_ip="0.0.0.0/0", description="HTTPS"
            )
        ],
    )
