"""Cases of EC2's networks, and of what is attached to them."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import (
    OTHER_TAGS,
    TAGS,
    Case,
    Cases,
    case,
)
from tests.yard.cloudformation.resources.world import World, allow


def route(world: World) -> Case:
    gateway = world.internet_gateway()
    nat = world.make("AWS::EC2::NatGateway", SubnetId=world.subnet(), ConnectivityType="private", Tags=TAGS)
    return case(
        RouteTableId=world.route_table(), DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway
    ).changed(GatewayId=None, NatGatewayId=nat.id)


def gateway_attachment(world: World) -> Case:
    first, second = (world.make("AWS::EC2::InternetGateway").id for _ in range(2))
    return case(VpcId=world.vpc(), InternetGatewayId=first).changed(InternetGatewayId=second)


def nat_gateway(world: World) -> Case:
    address = world.make("AWS::EC2::EIP", Domain="vpc")
    return case(AllocationId=address.attribute("AllocationId"), SubnetId=world.subnet(), Tags=TAGS).changed(
        Tags=OTHER_TAGS
    )


def ingress(world: World) -> Case:
    group = world.security_group()
    return case(GroupId=group, IpProtocol="-1", SourceSecurityGroupId=group, Description="EFA").changed(
        Description="EFA, in"
    )


def egress(world: World) -> Case:
    group = world.security_group()
    return case(GroupId=group, IpProtocol="-1", DestinationSecurityGroupId=group, Description="EFA").changed(
        Description="EFA, out"
    )


CASES: Cases = {
    "AWS::EC2::VPC": lambda _world: case(
        CidrBlock="10.30.0.0/16",
        EnableDnsSupport=True,
        EnableDnsHostnames=True,
        InstanceTenancy="default",
        Tags=TAGS,
    ).changed(Tags=OTHER_TAGS, EnableDnsHostnames=False),
    "AWS::EC2::Subnet": lambda world: case(
        VpcId=world.vpc(),
        CidrBlock="10.20.9.0/24",
        AvailabilityZone="us-east-1b",
        MapPublicIpOnLaunch=False,
        Tags=TAGS,
    ).changed(MapPublicIpOnLaunch=True),
    "AWS::EC2::RouteTable": lambda world: case(VpcId=world.vpc(), Tags=TAGS).changed(Tags=OTHER_TAGS),
    "AWS::EC2::Route": route,
    "AWS::EC2::SubnetRouteTableAssociation": lambda world: case(
        RouteTableId=world.route_table(), SubnetId=world.subnet()
    ),
    "AWS::EC2::InternetGateway": lambda _world: case(Tags=TAGS).changed(Tags=OTHER_TAGS),
    "AWS::EC2::VPCGatewayAttachment": gateway_attachment,
    "AWS::EC2::EIP": lambda _world: case(Domain="vpc", Tags=TAGS).changed(Tags=OTHER_TAGS),
    "AWS::EC2::NatGateway": nat_gateway,
    "AWS::EC2::VPCEndpoint": lambda world: case(
        VpcId=world.vpc(),
        ServiceName="com.amazonaws.us-east-1.ecr.api",
        VpcEndpointType="Interface",
        PrivateDnsEnabled=True,
        SecurityGroupIds=[world.security_group()],
        SubnetIds=[world.subnet()],
    ).changed(PolicyDocument=allow("ecr:*")),
    "AWS::EC2::FlowLog": lambda world: case(
        ResourceId=world.vpc(),
        ResourceType="VPC",
        TrafficType="ALL",
        LogDestinationType="cloud-watch-logs",
        LogGroupName=world.log_group(),
        DeliverLogsPermissionArn=world.role().attribute("Arn"),
        Tags=TAGS,
    ).changed(Tags=OTHER_TAGS),
    "AWS::EC2::SecurityGroup": lambda world: case(
        GroupDescription="nodes of the cluster",
        VpcId=world.vpc(),
        SecurityGroupEgress=[{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "Description": "all"}],
        SecurityGroupIngress=[
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8"},
            {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "10.20.0.0/16"},
        ],
        Tags=TAGS,
    ).changed(
        SecurityGroupIngress=[
            {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "CidrIp": "10.20.0.0/16"}
        ]
    ),
    "AWS::EC2::SecurityGroupIngress": ingress,
    "AWS::EC2::SecurityGroupEgress": egress,
    "AWS::EC2::VPCCidrBlock": lambda world: case(VpcId=world.vpc(), CidrBlock="10.21.0.0/16"),
    "AWS::EC2::KeyPair": lambda _world: case(KeyName="trial-key", Tags=TAGS),
    "AWS::EC2::NetworkInterface": lambda world: case(
        SubnetId=world.subnet(), GroupSet=[world.security_group()], Tags=TAGS
    ).changed(Tags=OTHER_TAGS),
    "AWS::IAM::RolePolicy": lambda world: case(
        RoleName=world.role().id, PolicyName="list", PolicyDocument=allow("s3:ListAllMyBuckets")
    ).changed(PolicyDocument=allow("s3:GetObject")),
}
