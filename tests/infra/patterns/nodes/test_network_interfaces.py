"""Every network card is opened, through a group that EFA can pass, on nodes that are close to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.patterns.nodes.network_interfaces import efa_interface_count
from slipway.jobs.words.errors import SlipwayError
from tests.infra.synthesis import CLUSTER, of_type, only, templates_of

PROMISED = {
    "dl1.24xlarge": 4,
    "trn1.32xlarge": 8,
    "trn1n.32xlarge": 16,
    "p4d.24xlarge": 4,
    "p5.48xlarge": 32,
    "c6i.32xlarge": 1,
}


def interfaces(**changes: Any) -> list[Mapping[str, Any]]:
    data = only(templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    found = data["NetworkInterfaces"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(("type_name", "count"), PROMISED.items())
def test_a_node_opens_one_efa_interface_on_every_card(type_name: str, count: int) -> None:
    found = interfaces(instance_type=type_name)
    assert [each["InterfaceType"] for each in found] == ["efa"] * count
    assert [each["NetworkCardIndex"] for each in found] == list(range(count))
    assert [each["DeviceIndex"] for each in found] == [0] + [1] * (count - 1)
    assert all(each["DeleteOnTermination"] for each in found)


@pytest.mark.parametrize(("type_name", "count"), PROMISED.items())
def test_a_container_is_given_the_device_of_every_efa_interface(type_name: str, count: int) -> None:
    job = only(templates_of(instance_type=type_name).compute, "AWS::Batch::JobDefinition")
    container = job["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    devices = [each["HostPath"] for each in container["LinuxParameters"]["Devices"]]
    efa = [device for device in devices if device.startswith("/dev/infiniband/")]
    assert efa == [f"/dev/infiniband/uverbs{index}" for index in range(count)]


def test_a_type_without_efa_has_one_plain_interface() -> None:
    assert [interface["InterfaceType"] for interface in interfaces(instance_type="c6i.16xlarge")] == [
        "interface"
    ]


def test_efa_asked_of_a_type_without_it_is_refused_by_name() -> None:
    with pytest.raises(SlipwayError, match=r"efa_interfaces is 1, but c6i\.16xlarge has no EFA"):
        templates_of(instance_type="c6i.16xlarge", efa_interfaces=1)


def test_more_efa_than_the_type_has_is_refused_with_its_maximum() -> None:
    with pytest.raises(SlipwayError, match="allowed are 0 to 4"):
        efa_interface_count(replace(CLUSTER, efa_interfaces=5))


def test_fewer_efa_interfaces_are_opened_where_fewer_are_asked() -> None:
    assert len(interfaces(efa_interfaces=2)) == 2


def test_the_group_of_the_nodes_lets_all_traffic_of_itself_in_and_out() -> None:
    template = templates_of().compute
    (group,) = {str(group) for interface in interfaces() for group in interface["Groups"]}
    (name,) = of_type(template, "AWS::EC2::SecurityGroup")
    own = {"Fn::GetAtt": [name, "GroupId"]}
    assert group == str(own)
    ends = {
        "AWS::EC2::SecurityGroupIngress": "SourceSecurityGroupId",
        "AWS::EC2::SecurityGroupEgress": "DestinationSecurityGroupId",
    }
    for resource_type, end in ends.items():
        rules = of_type(template, resource_type).values()
        itself = [rule for rule in rules if rule["GroupId"] == own and rule.get(end) == own]
        assert [rule["IpProtocol"] for rule in itself] == ["-1"]


def test_nodes_are_in_one_subnet_and_one_cluster_placement_group() -> None:
    template = templates_of().compute
    pool = only(template, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    (group,) = of_type(template, "AWS::EC2::PlacementGroup")
    assert len(pool["Subnets"]) == 1
    assert pool["PlacementGroup"] == {"Ref": group}
    assert only(template, "AWS::EC2::PlacementGroup")["Strategy"] == "cluster"
