"""Templates for common types, on AWS Batch without a bake, are what AWS asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from slipway.infra.declare.node_images import container_of
from slipway.jobs.words.catalogue.instances import instance_type
from tests.infra.synthesis import CLUSTER, only, templates_of


@dataclass(frozen=True, slots=True)
class Machine:
    """Hold what AWS asks for a type, from its documents and from moto 5.2.5's DescribeInstanceTypes."""

    ami: str  # ECS developer guide, "Retrieving Amazon ECS-optimized Linux AMI metadata": below _ECS
    image_type: str  # AWS Batch API reference, Ec2Configuration: for GPU families, and for all others
    container: str  # a folder of containers/images; "pytorch" is AWS's own
    gpus: int  # AWS Batch assigns GPUs; Neuron's devices are named by path
    neuron_devices: int
    cards_with_efa: range  # EC2 user guide, "Maximize network bandwidth …", which has P6-B300, too
    region: str = "us-east-1"


_ECS = "/aws/service/ecs/optimized-ami/amazon-linux-2023/"


def gpu(count: int, cards: range, region: str = "us-east-1") -> Machine:
    return Machine("gpu/", "ECS_AL2023_NVIDIA", "pytorch", count, 0, cards, region)


def processors(ami: str, container: str, cards: range) -> Machine:
    return Machine(ami, "ECS_AL2023", container, 0, 0, cards)


MACHINES = {
    "p4d.24xlarge": gpu(8, range(4)),
    "p5.48xlarge": gpu(8, range(32)),
    "p5en.48xlarge": gpu(8, range(16)),
    "p6-b200.48xlarge": gpu(8, range(8)),
    "p6-b300.48xlarge": gpu(8, range(1, 17), "us-west-2"),
    "g5.xlarge": gpu(1, range(0)),
    "g5.48xlarge": gpu(8, range(1)),
    "g6e.48xlarge": gpu(8, range(4)),
    # Neuron documentation, "Trn2 architecture": sixteen chips, /dev/neuron0 to 15.
    "trn2.48xlarge": Machine("neuron/", "ECS_AL2023", "neuron", 0, 16, range(16), "us-east-2"),
    "c7i.48xlarge": processors("", "pytorch", range(1)),
    "c7g.16xlarge": processors("arm64/", "cpu", range(1)),
}


@pytest.mark.parametrize(("name", "wanted"), MACHINES.items())
def test_a_cluster_that_names_its_type_alone_gets_what_aws_asks_of_it(name: str, wanted: Machine) -> None:
    templates = templates_of(instance_type=name, region=wanted.region, zone=f"{wanted.region}a")
    template = templates.compute
    pool = only(template, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    (configuration,) = pool["Ec2Configuration"]
    assert (configuration["ImageType"], pool["InstanceTypes"]) == (wanted.image_type, [name])
    ami = template["Parameters"][configuration["ImageIdOverride"]["Ref"]]
    assert ami["Default"] == f"{_ECS}{wanted.ami}recommended/image_id"

    launch = only(template, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert {disk["DeviceName"] for disk in launch["BlockDeviceMappings"]} == {"/dev/xvda"}  # Amazon Linux's
    opened = {each["NetworkCardIndex"]: each["InterfaceType"] for each in launch["NetworkInterfaces"]}
    first = "efa" if 0 in wanted.cards_with_efa else "interface"
    assert opened == {0: first, **dict.fromkeys(set(wanted.cards_with_efa) - {0}, "efa-only")}
    assert "PlacementGroup" in pool

    job = only(template, "AWS::Batch::JobDefinition")
    container = job["NodeProperties"]["NodeRangeProperties"][0]["Container"]
    required = {each["Type"]: each["Value"] for each in container["ResourceRequirements"]}
    assert required.get("GPU", "0") == str(wanted.gpus)
    assert required["VCPU"] == str(instance_type(name).vcpus)
    given = [each["HostPath"] for each in container["LinuxParameters"].get("Devices", ())]
    efa = [f"/dev/infiniband/uverbs{index}" for index in range(len(wanted.cards_with_efa))]
    assert given == [*efa, *(f"/dev/neuron{index}" for index in range(wanted.neuron_devices))]
    assert container_of(replace(CLUSTER, instance_type=name)) == wanted.container
    image = container["Image"]  # an image of this account's registry is an expression
    of_aws = image.partition(".dkr.ecr.")[0] if isinstance(image, str) else ""
    assert of_aws == ("763104351884" if wanted.container == "pytorch" else "")
