"""How private subnets reach AWS without the internet: S3's gateway endpoint, and interface endpoints.

infra/declare/types.py says, for each kind, which services its machines call.
"""

from __future__ import annotations

from aws_cdk import CfnTag, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from slipway.infra.declare.types import Cluster, Egress
from slipway.infra.patterns.network.security_groups import NOTHING
from slipway.infra.patterns.network.vpc import Vpc
from slipway.infra.patterns.statements import ACCOUNT_ID, PARTITION

# What jobs, nodes and the AWS CLI do with objects; buckets themselves are made and changed from outside.
_OBJECT_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
)


class S3Endpoint(Construct):
    """Keeps data and image layers off the NAT gateway. It is free, and always there."""

    def __init__(self, scope: Construct, id: str, *, region: str, vpc: Vpc) -> None:
        super().__init__(scope, id)
        own = iam.PolicyStatement(
            sid="BucketsOfThisAccount",
            principals=[iam.AnyPrincipal()],
            actions=list(_OBJECT_ACTIONS),
            resources=[f"arn:{PARTITION}:s3:::*"],
            conditions={"StringEquals": {"aws:ResourceAccount": ACCOUNT_ID}},
        )
        # ECR keeps image layers in a bucket of its own (Amazon ECR user guide, "Interface VPC endpoints").
        layers = iam.PolicyStatement(
            sid="ImageLayers",
            principals=[iam.AnyPrincipal()],
            actions=["s3:GetObject"],
            resources=[f"arn:{PARTITION}:s3:::prod-{region}-starport-layer-bucket/*"],
        )
        # Amazon Linux keeps its packages in one of its own (AL2023 user guide, "Security considerations for
        # AL2023 repositories"), and nodes of AWS's AMIs install the few that they lack.
        packages = iam.PolicyStatement(
            sid="AmazonLinuxPackages",
            principals=[iam.AnyPrincipal()],
            actions=["s3:GetObject"],
            resources=[f"arn:{PARTITION}:s3:::al2023-repos-{region}-de612dc2/*"],
        )
        self.resource = ec2.CfnVPCEndpoint(
            self,
            "Resource",
            vpc_id=vpc.vpc_id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.ref for table in vpc.route_tables],
            policy_document=iam.PolicyDocument(statements=[own, layers, packages]),
        )


class InterfaceEndpoints(Construct):
    """Costs about a cent an hour for each service, whether nodes run or not; the group costs nothing."""

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster, vpc: Vpc) -> None:
        super().__init__(scope, id)
        self.security_group = ec2.CfnSecurityGroup(
            self,
            "SecurityGroup",
            group_description="Interface endpoints: HTTPS from the private subnet",
            vpc_id=vpc.vpc_id,
            # The subnet and not a group: nodes and the tasks' own interfaces are in different groups.
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol="tcp",
                    from_port=443,
                    to_port=443,
                    cidr_ip=vpc.private_cidr,
                    description="HTTPS from the private subnet",
                )
            ],
            security_group_egress=[NOTHING],
        )
        self.security_group_id = self.security_group.attr_group_id
        for service in cluster.services if cluster.egress is Egress.ENDPOINTS else ():
            ec2.CfnVPCEndpoint(
                self,
                "".join(part.title() for part in service.replace(".", "-").split("-")),
                vpc_id=vpc.vpc_id,
                service_name=f"com.amazonaws.{cluster.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[vpc.private_subnet_id],
                security_group_ids=[self.security_group_id],
                tags=[CfnTag(key="Name", value=service)],
            )


def interface_endpoints(scope: Construct, cluster: Cluster, vpc: Vpc) -> str | None:
    """Make the endpoints if the cluster reaches AWS by them; return their security group's id.

    The group is always there and exported: a cluster that gets a NAT gateway later imports it until its own
    stack is updated, after the network's, and CloudFormation deletes no export that is in use.
    """
    if not cluster.services:
        return None
    group = InterfaceEndpoints(scope, "Endpoints", cluster=cluster, vpc=vpc).security_group_id
    if cluster.egress is Egress.ENDPOINTS:
        return group
    Stack.of(scope).export_value(group)
    return None
