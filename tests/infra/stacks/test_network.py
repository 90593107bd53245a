"""The network has one zone, lets nobody in, reaches S3 directly, and records its connections."""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Network
from typing import Any

import pytest

from slipway.infra.declare.declared import declared_cluster
from slipway.infra.declare.s3_prefix_lists import S3_PREFIX_LISTS
from slipway.infra.declare.types import Cluster, Egress
from slipway.infra.patterns.network.vpc import subnet_cidrs
from slipway.jobs.estimate.inputs.places import overheads
from slipway.jobs.words.errors import SlipwayError
from tests.infra.synthesis import CLUSTER, OTHER, SLURM_CLUSTER, as_text, of_type, only, templates_of

NEEDED_BY_NODES = {
    "ecr.api",
    "ecr.dkr",
    "ecs",
    "ecs-agent",
    "ecs-telemetry",
    "logs",
    "monitoring",
    "ssm",
    "ssmmessages",
    "secretsmanager",
    "sts",
}


def endpoints(kind: str, **changes: Any) -> dict[str, dict[str, Any]]:
    found = of_type(templates_of(**changes).network, "AWS::EC2::VPCEndpoint").values()
    prefix = "com.amazonaws.us-east-1."
    return {
        each["ServiceName"].removeprefix(prefix): dict(each)
        for each in found
        if each["VpcEndpointType"] == kind
    }


@pytest.mark.parametrize("egress", Egress)
def test_s3_is_reached_through_its_gateway_endpoint_from_every_subnet(egress: Egress) -> None:
    template = templates_of(egress=egress).network
    gateway = endpoints("Gateway", egress=egress)["s3"]
    tables = set(of_type(template, "AWS::EC2::RouteTable"))
    assert {each["Ref"] for each in gateway["RouteTableIds"]} == tables


def test_the_gateway_lets_through_to_buckets_of_this_account_to_image_layers_and_packages_only() -> None:
    own, layers, packages = endpoints("Gateway")["s3"]["PolicyDocument"]["Statement"]
    assert own["Condition"] == {"StringEquals": {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    assert not any("*" in action for action in own["Action"])
    assert as_text(layers["Resource"]) == "arn:<…>:s3:::prod-us-east-1-starport-layer-bucket/*"
    assert as_text(packages["Resource"]) == "arn:<…>:s3:::al2023-repos-us-east-1-de612dc2/*"
    assert layers["Action"] == packages["Action"] == "s3:GetObject"


@pytest.mark.parametrize("cluster", [CLUSTER, SLURM_CLUSTER], ids=lambda each: each.name)
def test_a_deployed_cluster_can_change_its_way_out(cluster: Cluster) -> None:
    """CloudFormation updates the network first, and refuses to delete what another stack still imports."""
    by = {egress: templates_of(cluster, egress=egress) for egress in Egress}
    imported = set(re.findall(r'"Fn::ImportValue": "([^"]+)"', json.dumps([t.compute for t in by.values()])))
    of_network = {name for name in imported if name.startswith(f"{cluster.name}-network:")}
    assert any("EndpointsSecurityGroup" in name for name in of_network)
    for made in by.values():
        outputs = made.network["Outputs"].values()
        assert of_network <= {each["Export"]["Name"] for each in outputs if "Export" in each}


def test_without_nat_nothing_leads_to_the_internet() -> None:
    template = templates_of().network
    for resource_type in ("InternetGateway", "NatGateway", "EIP", "Route"):
        assert not of_type(template, f"AWS::EC2::{resource_type}")
    assert set(endpoints("Interface")) == NEEDED_BY_NODES
    assert all(endpoint["PrivateDnsEnabled"] for endpoint in endpoints("Interface").values())


def test_endpoints_answer_the_private_subnet_on_https_and_nobody_else() -> None:
    template = templates_of().network
    subnet = only(template, "AWS::EC2::Subnet")
    (rule,) = only(template, "AWS::EC2::SecurityGroup")["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == (subnet["CidrBlock"], 443, 443)


def test_with_nat_there_are_no_interface_endpoints_and_nodes_go_out_by_https_only() -> None:
    templates = templates_of(egress=Egress.NAT)
    assert not endpoints("Interface", egress=Egress.NAT)
    assert len(of_type(templates.network, "AWS::EC2::NatGateway")) == 1
    (rule,) = only(templates.compute, "AWS::EC2::SecurityGroup")["SecurityGroupEgress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("0.0.0.0/0", 443, 443)


def test_without_nat_nodes_reach_s3_and_the_endpoints_only() -> None:
    template = templates_of().compute
    (rule,) = only(template, "AWS::EC2::SecurityGroup")["SecurityGroupEgress"]
    assert rule["DestinationPrefixListId"] == S3_PREFIX_LISTS["us-east-1"]
    assert "CidrIp" not in rule
    to_groups = of_type(template, "AWS::EC2::SecurityGroupEgress").values()
    assert {group.get("FromPort") for group in to_groups} == {None, 443, 2049}


@pytest.mark.parametrize("egress", Egress)
def test_every_subnet_is_in_the_declared_zone_and_gives_no_public_address(egress: Egress) -> None:
    subnets = of_type(templates_of(egress=egress).network, "AWS::EC2::Subnet").values()
    assert {subnet["AvailabilityZone"] for subnet in subnets} == {"us-east-1b"}
    assert not any(subnet["MapPublicIpOnLaunch"] for subnet in subnets)


def test_all_traffic_is_recorded_in_an_encrypted_log_that_ends() -> None:
    template = templates_of(**OTHER).network
    flow_log = only(template, "AWS::EC2::FlowLog")
    assert (flow_log["TrafficType"], flow_log["ResourceType"]) == ("ALL", "VPC")
    group = only(template, "AWS::Logs::LogGroup")
    assert group["RetentionInDays"] == 30
    (key,) = of_type(template, "AWS::KMS::Key")
    assert group["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}


def test_the_log_key_serves_logs_of_this_account_only_and_rotates() -> None:
    key = only(templates_of().network, "AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    services = [each for each in key["KeyPolicy"]["Statement"] if "Service" in each["Principal"]]
    assert len(services) == 3
    for statement in services:
        if statement["Sid"] != "PublishFromEvents":  # EventBridge does not tell KMS its account
            assert "AWS::AccountId" in str(statement["Condition"])


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.3.0.0/20", "192.168.4.0/27"])
@pytest.mark.parametrize("egress", Egress)
def test_subnets_lie_in_the_vpc_apart_from_each_other(cidr: str, egress: Egress) -> None:
    private, public = subnet_cidrs(cidr, egress)
    assert IPv4Network(private).subnet_of(IPv4Network(cidr))
    assert (public is not None) == (egress is Egress.NAT)
    if public is not None:
        assert IPv4Network(public).subnet_of(IPv4Network(cidr))
        assert not IPv4Network(public).overlaps(IPv4Network(private))


def test_a_vpc_without_room_for_a_public_subnet_is_refused_with_nat() -> None:
    assert subnet_cidrs("10.0.0.0/28", Egress.ENDPOINTS) == ("10.0.0.0/28", None)
    with pytest.raises(SlipwayError, match=r"vpc_cidr is 10\.0\.0\.0/28, too small"):
        subnet_cidrs("10.0.0.0/28", Egress.NAT)


def test_a_region_whose_s3_addresses_are_unknown_is_refused_with_what_to_do() -> None:
    with pytest.raises(SlipwayError, match="S3 prefix list is not known") as caught:
        templates_of(region="me-central-1", zone="me-central-1a", instance_type="p5en.48xlarge")
    assert "Egress.NAT" in caught.value.hint


def test_a_cluster_whose_ami_nobody_baked_is_refused_by_its_first_stack() -> None:
    network = templates_of().network
    image = network["Parameters"]["NodeImage"]
    assert (image["Type"], image["Default"]) == (
        "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        "/slipway/amis/gaudi-ecs/id",
    )
    assert network["Outputs"]["NodeImageFound"]["Value"] == {"Ref": "NodeImage"}


# An estimate counts around a cluster's nodes exactly what its stacks create.


def test_as_many_interface_endpoints_are_priced_as_are_made() -> None:
    made = of_type(templates_of().network, "AWS::EC2::VPCEndpoint").values()
    interfaces = [each for each in made if each["VpcEndpointType"] == "Interface"]
    assert overheads(CLUSTER).interface_endpoints == len(interfaces) > 0


def test_a_nat_gateway_takes_the_place_of_the_endpoints() -> None:
    around = overheads(declared_cluster("dl1", ["dl1.egress=nat"]))
    assert (around.interface_endpoints, around.nat_gateways) == (0, 1)


def test_a_declared_lustre_costs_its_declared_size() -> None:
    own_ami = ["dl1.ami_parameter=/own/ami", "dl1.ami_made_from=gaudi-ecs", "dl1.ami_adds=lustre-client"]
    around = overheads(declared_cluster("dl1", ["dl1.file_system=fsx-lustre", *own_ami]))
    assert (around.file_system_item, around.file_system_gib) == ("fsx-lustre-125", 1200)
