"""What a cluster stands in: EC2's networks."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World, allow


def vpc(_world: World) -> Case:
    return Case(
        properties={
            "CidrBlock": "10.30.0.0/16",
            "EnableDnsSupport": True,
            "EnableDnsHostnames": True,
            "InstanceTenancy": "default",
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS, "EnableDnsHostnames": False},
    )


def subnet(world: World) -> Case:
    return Case(
        properties={
            "VpcId": world.vpc(),
            "CidrBlock": "10.20.9.0/24",
            "AvailabilityZone": "us-east-1b",
            "MapPublicIpOnLaunch": False,
            "Tags": TAGS,
        },
        change={"MapPublicIpOnLaunch": True},
    )


def route_table(world: World) -> Case:
    return Case(properties={"VpcId": world.vpc(), "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def route(world: World) -> Case:
    gateway = world.internet_gateway()
    nat = world.make("AWS::EC2::NatGateway", SubnetId=world.subnet(), ConnectivityType="private", Tags=TAGS)
    return Case(
        properties={
            "RouteTableId": world.route_table(),
            "DestinationCidrBlock": "0.0.0.0/0",
            "GatewayId": gateway,
        },
        change={"GatewayId": None, "NatGatewayId": nat.id},
    )


def association(world: World) -> Case:
    return Case(properties={"RouteTableId": world.route_table(), "SubnetId": world.subnet()})


def internet_gateway(_world: World) -> Case:
    return Case(properties={"Tags": TAGS}, change={"Tags": OTHER_TAGS})


def gateway_attachment(world: World) -> Case:
    first, second = (world.make("AWS::EC2::InternetGateway").id for _ in range(2))
    return Case(
        properties={"VpcId": world.vpc(), "InternetGatewayId": first}, change={"InternetGatewayId": second}
    )


def elastic_ip(_world: World) -> Case:
    return Case(properties={"Domain": "vpc", "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def nat_gateway(world: World) -> Case:
    address = world.make("AWS::EC2::EIP", Domain="vpc")
    return Case(
        properties={
            "AllocationId": address.attribute("AllocationId"),
            "SubnetId": world.subnet(),
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def endpoint(world: World) -> Case:
    return Case(
        properties={
            "VpcId": world.vpc(),
            "ServiceName": "com.amazonaws.us-east-1.ecr.api",
            "VpcEndpointType": "Interface",
            "PrivateDnsEnabled": True,
            "SecurityGroupIds": [world.security_group()],
            "SubnetIds": [world.subnet()],
        },
        change={"PolicyDocument": allow("ecr:*")},
    )


def flow_log(world: World) -> Case:
    return Case(
        properties={
            "ResourceId": world.vpc(),
            "ResourceType": "VPC",
            "TrafficType": "ALL",
            "LogDestinationType": "cloud-watch-logs",
            "LogGroupName": world.log_group(),
            "DeliverLogsPermissionArn": world.role().attribute("Arn"),
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def security_group(world: World) -> Case:
    return Case(
        properties={
            "GroupDescription": "nodes of the cluster",
            "VpcId": world.vpc(),
            "SecurityGroupEgress": [{"IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "Description": "all"}],
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIp": "10.0.0.0/8"},
                {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "CidrIp": "10.20.0.0/16"},
            ],
            "Tags": TAGS,
        },
        change={
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "CidrIp": "10.20.0.0/16"}
            ]
        },
    )


def ingress(world: World) -> Case:
    group = world.security_group()
    return Case(
        properties={
            "GroupId": group,
            "IpProtocol": "-1",
            "SourceSecurityGroupId": group,
            "Description": "EFA",
        },
        change={"Description": "EFA, in"},
    )


def egress(world: World) -> Case:
    group = world.security_group()
    return Case(
        properties={
            "GroupId": group,
            "IpProtocol": "-1",
            "DestinationSecurityGroupId": group,
            "Description": "EFA",
        },
        change={"Description": "EFA, out"},
    )


CASES: Cases = {
    "AWS::EC2::VPC": vpc,
    "AWS::EC2::Subnet": subnet,
    "AWS::EC2::VPCEndpoint": endpoint,
    "AWS::EC2::FlowLog": flow_log,
    "AWS::EC2::RouteTable": route_table,
    "AWS::EC2::Route": route,
    "AWS::EC2::SubnetRouteTableAssociation": association,
    "AWS::EC2::InternetGateway": internet_gateway,
    "AWS::EC2::VPCGatewayAttachment": gateway_attachment,
    "AWS::EC2::EIP": elastic_ip,
    "AWS::EC2::NatGateway": nat_gateway,
    "AWS::EC2::SecurityGroup": security_group,
    "AWS::EC2::SecurityGroupIngress": ingress,
    "AWS::EC2::SecurityGroupEgress": egress,
}
