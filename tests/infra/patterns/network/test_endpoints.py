"""An estimate counts around a cluster's nodes exactly what its stacks create."""

from __future__ import annotations

from slipway.infra.declare.declared import declared_cluster
from slipway.jobs.estimate.inputs.places import overheads
from tests.infra.synthesis import CLUSTER, of_type, templates_of


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
