"""Nodes use every network card, have a security group that lets EFA through, and are close to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.patterns.nodes.network_interfaces import Interface, efa_interface_count, network_interfaces
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import SlipwayError
from tests.infra.synthesis import CLUSTER, OTHER, of_type, only, templates_of

# The network cards of a type, and those of them that take EFA: DescribeInstanceTypes as moto 5.2.5 keeps it
# (MaximumNetworkCards, MaximumEfaInterfaces), and of dl1 the EC2 user guide's table. On P6-B300 "the primary
# network card (network card index 0) only supports ENA, the remaining secondary network cards (indexes 1-16)
# support EFA and ENA" (AWS in aws/aws-parallelcluster#7143).
CARDS_WITH_EFA = {
    "dl1.24xlarge": range(4),
    "trn1.32xlarge": range(8),
    "trn1n.32xlarge": range(16),
    "trn2.48xlarge": range(16),
    "p4d.24xlarge": range(4),
    "p5.48xlarge": range(32),
    "p5e.48xlarge": range(32),
    "p5en.48xlarge": range(16),
    "p6-b200.48xlarge": range(8),
    "p6-b300.48xlarge": range(1, 17),
    "g5.xlarge": range(0),
    "g5.48xlarge": range(1),
    "g6e.48xlarge": range(4),
    "c6i.32xlarge": range(1),
    "c7i.48xlarge": range(1),
    "c7i.24xlarge": range(0),
    "c7g.16xlarge": range(1),
    "hpc7a.96xlarge": range(2),
}


def interfaces(**changes: Any) -> list[Mapping[str, Any]]:
    data = only(templates_of(**changes).compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    found = data["NetworkInterfaces"]
    assert isinstance(found, list)
    return found


def opened(type_name: str, efa_interfaces: int | None = None) -> list[Interface]:
    type_ = instance_type(type_name)
    count = type_.efa_interfaces if efa_interfaces is None else efa_interfaces
    return network_interfaces(type_, efa_interfaces=count, security_group_id="sg-1")


@pytest.mark.parametrize(("type_name", "cards"), CARDS_WITH_EFA.items())
def test_a_node_opens_efa_on_every_card_that_takes_it_and_has_one_address(
    type_name: str, cards: range
) -> None:
    """EC2 user guide, "Maximize network bandwidth …": card 0 first, and further cards with EFA alone.

    "You can't use an EFA-only network interface as the primary network interface"; "for each additional
    network interface, use the next unused network card index, device index 0, for EFA-only".
    """
    found = opened(type_name)
    sorts = {each.network_card_index: each.interface_type for each in found}
    assert sorts == {0: "efa" if 0 in cards else "interface", **dict.fromkeys(set(cards) - {0}, "efa-only")}
    assert len(sorts) == len(found), "one interface a card"
    assert {each.device_index for each in found} == {0}
    assert all(each.delete_on_termination for each in found)
    assert [each.associate_public_ip_address for each in found] == [False, *[None] * (len(found) - 1)]


def test_a_container_is_given_the_device_of_every_efa_interface() -> None:
    job = only(templates_of().compute, "AWS::Batch::JobDefinition")
    container = job["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    devices = [each["HostPath"] for each in container["LinuxParameters"]["Devices"]]
    efa = [device for device in devices if device.startswith("/dev/infiniband/")]
    assert efa == [f"/dev/infiniband/uverbs{index}" for index in range(4)]


def test_efa_asked_of_a_type_without_it_is_refused_by_name() -> None:
    with pytest.raises(SlipwayError, match=r"efa_interfaces is 1, but c6i\.16xlarge has no EFA"):
        templates_of(instance_type="c6i.16xlarge", efa_interfaces=1)


def test_more_efa_than_the_type_has_is_refused_with_its_maximum() -> None:
    with pytest.raises(SlipwayError, match="allowed are 0 to 4"):
        efa_interface_count(replace(CLUSTER, efa_interfaces=5))


def test_fewer_efa_interfaces_are_opened_where_fewer_are_asked() -> None:
    assert len(interfaces(**OTHER)) == 2
    assert len(opened("p6-b300.48xlarge", 2)) == 3, "card 0 has none"
    assert [each.interface_type for each in opened("p5.48xlarge", 0)] == ["interface"]


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
