"""What SageMaker needs of EC2 to put instances into our network: for training jobs and for HyperPod."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct


def join_the_network(
    scope: Construct, subnet_id: str, security_group_id: str
) -> tuple[iam.PolicyStatement, ...]:
    """Let SageMaker put an interface of each instance into the one subnet, in the one group."""

    def ec2(sort: str, name: str) -> str:
        return Stack.of(scope).format_arn(service="ec2", resource=sort, resource_name=name)

    subnet, interfaces = ec2("subnet", subnet_id), ec2("network-interface", "*")
    group = ec2("security-group", security_group_id)
    make = iam.PolicyStatement(
        sid="MakeInterfaces",
        actions=["ec2:CreateNetworkInterface"],
        resources=[subnet, group, interfaces],
    )
    hand_on = iam.PolicyStatement(
        sid="HandInterfacesToSageMaker",
        actions=["ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"],
        resources=[interfaces],
        conditions={"ArnEquals": {"ec2:Subnet": subnet}},
    )
    # Neither takes a resource (Service Authorization Reference, "Amazon EC2").
    look = iam.PolicyStatement(
        sid="LookAtTheNetwork",
        actions=[
            "ec2:DeleteNetworkInterfacePermission",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ],
        resources=["*"],
    )
    return make, hand_on, look
