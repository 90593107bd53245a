"""What is attached to networks and machines, and people's access."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World, allow


def cidr_block(world: World) -> Case:
    return Case(properties={"VpcId": world.vpc(), "CidrBlock": "10.21.0.0/16"})


def dhcp_options(_world: World) -> Case:
    return Case(
        properties={"DomainName": "train.internal", "DomainNameServers": ["AmazonProvidedDNS"], "Tags": TAGS},
        change={"Tags": OTHER_TAGS},
    )


def dhcp_association(world: World) -> Case:
    options = world.make("AWS::EC2::DHCPOptions", DomainName="train.internal").id
    return Case(properties={"VpcId": world.vpc(), "DhcpOptionsId": options})


def acl(world: World) -> Case:
    return Case(properties={"VpcId": world.vpc(), "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def acl_entry(world: World) -> Case:
    made = world.make("AWS::EC2::NetworkAcl", VpcId=world.vpc()).id
    return Case(
        properties={
            "NetworkAclId": made,
            "RuleNumber": 100,
            "Protocol": 6,
            "RuleAction": "allow",
            "CidrBlock": "10.0.0.0/8",
            "PortRange": {"From": 443, "To": 443},
        },
        change={"RuleAction": "deny"},
    )


def acl_association(world: World) -> Case:
    made = world.make("AWS::EC2::NetworkAcl", VpcId=world.vpc()).id
    return Case(properties={"SubnetId": world.subnet(), "NetworkAclId": made})


def peering(world: World) -> Case:
    other = world.make("AWS::EC2::VPC", CidrBlock="10.99.0.0/16").id
    return Case(
        properties={"VpcId": world.vpc(), "PeerVpcId": other, "Tags": TAGS}, change={"Tags": OTHER_TAGS}
    )


def egress_only(world: World) -> Case:
    return Case(properties={"VpcId": world.vpc()})


def key_pair(_world: World) -> Case:
    return Case(properties={"KeyName": "trial-key", "Tags": TAGS})


def volume(world: World) -> Case:
    return Case(
        properties={
            "AvailabilityZone": f"{world.region}a",
            "Size": 10,
            "VolumeType": "gp3",
            "Encrypted": True,
            "Tags": TAGS,
        },
        change={"Size": 20},
    )


def volume_attachment(world: World) -> Case:
    made = world.make("AWS::EC2::Volume", AvailabilityZone=f"{world.region}a", Size=10).id
    return Case(properties={"VolumeId": made, "InstanceId": world.instance(), "Device": "/dev/sdf"})


def network_interface(world: World) -> Case:
    return Case(
        properties={"SubnetId": world.subnet(), "GroupSet": [world.security_group()], "Tags": TAGS},
        change={"Tags": OTHER_TAGS},
    )


def address_association(world: World) -> Case:
    address = world.make("AWS::EC2::EIP", Domain="vpc")
    return Case(
        properties={"AllocationId": address.attribute("AllocationId"), "InstanceId": world.instance()}
    )


def user(world: World) -> Case:
    group = world.make("AWS::IAM::Group").id
    inline = [{"PolicyName": "list", "PolicyDocument": allow("s3:ListAllMyBuckets")}]
    return Case(properties={"Groups": [group], "Policies": inline, "Tags": TAGS}, change={"Tags": OTHER_TAGS})


def group(_world: World) -> Case:
    inline = [{"PolicyName": "list", "PolicyDocument": allow("s3:ListAllMyBuckets")}]
    return Case(properties={"Policies": inline})


def membership(world: World) -> Case:
    name = world.make("AWS::IAM::User").id
    return Case(properties={"GroupName": world.make("AWS::IAM::Group").id, "Users": [name]})


def access_key(world: World) -> Case:
    return Case(properties={"UserName": world.make("AWS::IAM::User").id})


def role_policy(world: World) -> Case:
    return Case(
        properties={
            "RoleName": world.role().id,
            "PolicyName": "list",
            "PolicyDocument": allow("s3:ListAllMyBuckets"),
        },
        change={"PolicyDocument": allow("s3:GetObject")},
    )


CASES: Cases = {
    "AWS::EC2::VPCCidrBlock": cidr_block,
    "AWS::EC2::DHCPOptions": dhcp_options,
    "AWS::EC2::VPCDHCPOptionsAssociation": dhcp_association,
    "AWS::EC2::NetworkAcl": acl,
    "AWS::EC2::NetworkAclEntry": acl_entry,
    "AWS::EC2::SubnetNetworkAclAssociation": acl_association,
    "AWS::EC2::VPCPeeringConnection": peering,
    "AWS::EC2::EgressOnlyInternetGateway": egress_only,
    "AWS::EC2::KeyPair": key_pair,
    "AWS::EC2::Volume": volume,
    "AWS::EC2::VolumeAttachment": volume_attachment,
    "AWS::EC2::NetworkInterface": network_interface,
    "AWS::EC2::EIPAssociation": address_association,
    "AWS::IAM::User": user,
    "AWS::IAM::Group": group,
    "AWS::IAM::UserToGroupAddition": membership,
    "AWS::IAM::AccessKey": access_key,
    "AWS::IAM::RolePolicy": role_policy,
}
