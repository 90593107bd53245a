"""No kind of cluster accepts a node that cannot work, and the node that a refusal suggests does work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.clusters import MACHINE_IMAGES
from slipway.infra.declare import types
from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.checks.nodes import defaults_of
from slipway.infra.declare.types import Cluster, ClusterKind, Egress, FileSystem, Mpi
from slipway.jobs.words.catalogue.hardware import unusable
from slipway.jobs.words.catalogue.instances import InstanceType, every_instance_type, instance_type
from slipway.jobs.words.images.ami_locks import ARCHITECTURE
from tests.infra.declare.hints import CLUSTERS, OWN, followed

# The devices that a kind of cluster drives without settings of AMI or container, by architecture.
DRIVEN = {
    "batch": {"x86_64": ("", "NVIDIA", "Habana", "Trainium2"), "arm64": ("",)},
    "mpi": {"x86_64": ("", "Habana"), "arm64": ()},
    "slurm": {"x86_64": ("", "NVIDIA", "Trainium1"), "arm64": ()},
}
GAUDI_MPI = {"machine_image": "gaudi-mpi"}
ON_SAGEMAKER = "such a GPU runs on SageMaker alone: use SageMakerCluster"


def of_type(kind: str, type_: InstanceType, region: str = "") -> Cluster:
    """Return a cluster of one node where the type is offered: without EFA, Trainium takes no second node."""
    region = region or next(iter(type_.regions), "us-east-1")
    changes: dict[str, Any] = {"instance_type": type_.name, "region": region, "zone": f"{region}a"}
    return replace(CLUSTERS[kind], max_nodes=1, egress=Egress.NAT, **changes)


def each_sort_of_type() -> Iterator[InstanceType]:
    """List every type with accelerators, and one of each family without, as its sizes differ in no rule."""
    families = set()
    for type_ in every_instance_type():
        family = type_.name.partition(".")[0]
        if type_.accelerator or family not in families:
            families.add(family)
            yield type_


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_cluster_takes_the_types_that_its_image_drives_and_names_what_works_for_all_others(
    kind: str,
) -> None:
    for type_ in each_sort_of_type():
        name = type_.accelerator.name if type_.accelerator else ""
        is_driven = name.partition(" ")[0] in DRIVEN[kind].get(type_.architecture, ())
        works = is_driven and not name.startswith("NVIDIA V100")  # older than NVIDIA's open driver
        cluster = of_type(kind, type_)
        problems = problems_of(cluster)
        assert (problems == ()) == works, (kind, type_.name, problems)
        if problems and not unusable(type_):
            (problem,) = problems
            ways = [problems_of(way) for way in followed(cluster, problem)]
            assert ways or "no container here is" in problem.hint, problem
            if not ways:
                continue
            assert set(ways) == {()}, problem


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize(
    ("type_name", "named"), [("p3.16xlarge", '"ml.p3.16xlarge"'), ("p3dn.24xlarge", '"ml.p3dn.24xlarge"')]
)
def test_a_gpu_that_no_ami_drives_is_refused_with_the_road_that_does(
    kind: str, type_name: str, named: str
) -> None:
    cluster = of_type(kind, instance_type(type_name))
    (problem,) = problems_of(cluster)
    assert f"is {type_name}, whose NVIDIA " in problem.message
    assert problem.message.endswith(f" nothing in a {type(cluster).__name__} drives")
    assert problem.hint == f"{ON_SAGEMAKER}(instance_type={named})"


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        (
            "batch",
            {"instance_type": "trn1.32xlarge"},
            (
                "instance_type: is trn1.32xlarge, whose Trainium1 nothing in a BatchCluster drives; "
                'use SlurmCluster(instance_type="trn1.32xlarge")'
            ),
        ),
        (
            "slurm",
            {"instance_type": "dl1.24xlarge"},
            (
                "instance_type: is dl1.24xlarge, whose Habana Gaudi HL-205 nothing in a SlurmCluster drives; "
                'use BatchCluster(instance_type="dl1.24xlarge") or MpiCluster(instance_type="dl1.24xlarge")'
            ),
        ),
        (
            "mpi",
            {"instance_type": "dl1.24xlarge", "machine_image": "cpu-mpi"},
            (
                "machine_image: is cpu-mpi, which has no synapseai and no training-python, so that nothing "
                'drives the Habana Gaudi HL-205 of dl1.24xlarge; use machine_image="gaudi-mpi"'
            ),
        ),
        (
            "mpi",
            {"instance_type": "p5.48xlarge"},
            (
                "instance_type: is p5.48xlarge, whose NVIDIA H100 80GB nothing in a MpiCluster drives; "
                'use BatchCluster(instance_type="p5.48xlarge") or SlurmCluster(instance_type="p5.48xlarge", '
                "egress=Egress.NAT)"
            ),
        ),
        (
            "mpi",
            {"instance_type": "c7g.16xlarge"},
            (
                "instance_type: is c7g.16xlarge, which is arm64, and no AMI of a MpiCluster is; "
                'use instance_type="c6i.16xlarge"'
            ),
        ),
        (
            "batch",
            {"instance_type": "p5.48xlarge", "ami_parameter": "/slipway/amis/gaudi-ecs/id"},
            (
                "ami_parameter: is gaudi-ecs, which has no nvidia-driver, so that nothing drives the NVIDIA "
                'H100 80GB of p5.48xlarge; use ami_parameter="/aws/service/ecs/optimized-ami/'
                'amazon-linux-2023/gpu/recommended/image_id"'
            ),
        ),
        (
            "batch",
            {"instance_type": "p5.48xlarge", "machine_image": "ecs"},
            "machine_image: is ecs, which has no nvidia-driver, so that nothing drives the NVIDIA H100",
        ),
        (
            "slurm",
            {"instance_type": "c7g.16xlarge"},
            (
                "instance_type: is c7g.16xlarge, which is arm64, and no AMI of a SlurmCluster is; "
                'use instance_type="c6i.16xlarge", egress=Egress.NAT'
            ),
        ),
        (
            "batch",
            {"instance_type": "c6i.16xlarge", "machine_image": "ecs-nvidia"},
            (
                "machine_image: is ecs-nvidia, which AWS Batch takes for GPU types alone "
                '(ECS_AL2023_NVIDIA); use machine_image="ecs"'
            ),
        ),
        (
            "batch",
            {"instance_type": "p5.48xlarge", "image": "gaudi"},
            (
                "image: is gaudi, which is not for the NVIDIA H100 80GB of p5.48xlarge; "
                'use image="gpu" or image="pytorch"'
            ),
        ),
        ("mpi", {"instance_type": "c7gn.16xlarge", "efa_interfaces": 1}, 'use instance_type="c6i.32xlarge"'),
        (
            "slurm",
            {"login_instance_type": "c7g.large"},
            "login_instance_type: is c7g.large (arm64), and the AMI of its workers is for x86_64; use",
        ),
        (
            "batch",
            {"ami_parameter": "/slipway/amis/neuron-slurm/id"},
            (
                "is neuron-slurm, which has no ecs-agent and no synapseai, so that nothing drives "
                'the Habana Gaudi HL-205 of dl1.24xlarge; use ami_parameter="/slipway/amis/gaudi-ecs/id"'
            ),
        ),
        (
            "mpi",
            {"machine_image": "neuron-slurm"},
            'machine_image: is neuron-slurm, which has no open-mpi; use machine_image="cpu-mpi"',
        ),
        (
            "slurm",
            {"machine_image": "cpu-mpi"},
            "machine_image: is cpu-mpi, which has no slurm and no pcs-agent and no neuron-driver",
        ),
        (
            "batch",
            {"image": "cpu"},
            ('image: is cpu, which is not for the Habana Gaudi HL-205 of dl1.24xlarge; use image="gaudi"'),
        ),
        (
            "batch",
            {"file_system": FileSystem.FSX_LUSTRE},
            (
                "file_system: is fsx-lustre, but gaudi-ecs has no Lustre client: nodes fail at boot; "
                'use file_system=FileSystem.EFS, or ami_made_from="gaudi-ecs", ami_adds=("lustre-client",)'
            ),
        ),
        ("mpi", {"file_system": FileSystem.FSX_LUSTRE}, "but cpu-mpi has no Lustre client"),
        ("slurm", {"scratch": True}, "scratch: is True, but neuron-slurm has no Lustre client"),
        (
            "mpi",
            {"mpi": Mpi.MPICH},
            (
                "mpi: is mpich, but cpu-mpi has open-mpi; use mpi=Mpi.OPEN_MPI, or "
                'ami_made_from="cpu-mpi", ami_adds=("mpich",) and the ami_parameter of your own AMI that has'
            ),
        ),
        (
            "slurm",
            {"ami_parameter": "/slipway/amis/cpu-mpi/id", "machine_image": "neuron-slurm"},
            "is /slipway/amis/cpu-mpi/id, but machine_image is neuron-slurm; use ami_parameter",
        ),
        (
            "mpi",
            {"ami_parameter": "/slipway/amis/gaudi-ecs/id", "machine_image": "cpu-mpi"},
            (
                "ami_parameter: is /slipway/amis/gaudi-ecs/id, but machine_image is cpu-mpi; use "
                'ami_parameter="/slipway/amis/cpu-mpi/id"'
            ),
        ),
        ("batch", {"ami_made_from": "gaudi-ecs"}, "ami_made_from: has no effect: nodes boot gaudi-ecs as"),
        ("mpi", {"ami_adds": ("mpich",)}, "ami_adds: has no effect: nodes boot cpu-mpi as it is published"),
        (
            "mpi",
            {"ami_parameter": "/slipway/amis/cpu-mpi/id", "ami_adds": ("mpich",)},
            "ami_adds: has no effect: /slipway/amis/cpu-mpi/id names cpu-mpi as it is published",
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-esc"},
            "ami_made_from: is 'gaudi-esc', which is no machine image of Slipway's or AWS's; did you mean",
        ),
        (
            "mpi",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-mpi", "machine_image": "cpu-mpi"},
            'ami_made_from: is gaudi-mpi, but machine_image is cpu-mpi; use ami_made_from="cpu-mpi"',
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "cpu-mpi"},
            "ami_made_from: is cpu-mpi, which has no ecs-agent and no synapseai, so that",
        ),
        (
            "batch",
            {"ami_parameter": OWN, "ami_made_from": "gaudi-ecs", "ami_adds": ("nvidia-driver",)},
            "ami_adds: has 'nvidia-driver'; allowed are lustre-client, open-mpi, intel-mpi, mpich",
        ),
    ],
)
def test_what_a_node_lacks_is_said_with_what_has_it(kind: str, changes: dict[str, Any], said: str) -> None:
    cluster = replace(CLUSTERS[kind], **changes)
    (problem,) = problems_of(cluster)
    assert said in str(problem).partition(".")[2]
    assert {problems_of(way) for way in followed(cluster, problem)} <= {()}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("batch", {"instance_type": "c6i.xlarge"}),
        ("batch", {"instance_type": "c6i.xlarge", "image": "cpu"}),
        # A node of processors boots Gaudi's AMI and container, so that the rest of them can be tried.
        ("batch", {"instance_type": "c6i.xlarge", "machine_image": "gaudi-ecs", "image": "gaudi"}),
        ("slurm", {"instance_type": "c6i.large", "machine_image": "neuron-slurm"}),
        ("batch", {"instance_type": "p5.48xlarge", "ami_parameter": OWN, "ami_made_from": "ecs-nvidia"}),
        ("batch", {"ami_parameter": OWN, "ami_made_from": "gaudi-ecs"}),
        (
            "batch",
            {
                "ami_parameter": OWN,
                "ami_made_from": "gaudi-ecs",
                "ami_adds": ("lustre-client",),
                "file_system": FileSystem.FSX_LUSTRE,
            },
        ),
        ("mpi", {"instance_type": "dl1.24xlarge", **GAUDI_MPI}),
        ("mpi", {"instance_type": "c6i.large", **GAUDI_MPI}),
        ("mpi", {"ami_parameter": OWN, "ami_made_from": "cpu-mpi", "ami_adds": ("mpich",), "mpi": Mpi.MPICH}),
        ("slurm", {"instance_type": "c6i.large", "egress": Egress.NAT}),
        ("slurm", {"instance_type": "p5.48xlarge", "egress": Egress.NAT, "scratch": True}),
        (
            "slurm",
            {
                "ami_parameter": OWN,
                "ami_made_from": "neuron-slurm",
                "ami_adds": ("lustre-client",),
                "scratch": True,
            },
        ),
    ],
)
def test_what_can_work_is_accepted(kind: str, changes: dict[str, Any]) -> None:
    assert problems_of(replace(CLUSTERS[kind], **changes)) == ()


def test_every_kind_whose_nodes_boot_an_ami_is_held_to_these_rules() -> None:
    booting = {
        kind.kind for kind in types.NodeCluster.__subclasses__() if "ami_parameter" in defaults_of(kind)
    }
    assert booting == {ClusterKind(kind) for kind in CLUSTERS}


# Nodes boot an AMI that Slipway bakes, or one that was made from it and names it.


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize(
    "parameter", [OWN, "/slipway/amis/nobodys/id", "/aws/service/ecs/optimized-ami/image_id"]
)
def test_an_ami_of_somebody_else_is_refused_unless_it_is_said_to_be_made_from_ours(
    kind: str, parameter: str
) -> None:
    cluster = replace(CLUSTERS[kind], ami_parameter=parameter)
    (problem,) = problems_of(cluster)
    image = {"batch": "gaudi-ecs", "mpi": "cpu-mpi", "slurm": "neuron-slurm"}[kind]
    assert f"ami_parameter: is {parameter}, an AMI without Slipway's boot" in str(problem)
    assert f'use ami_parameter="/slipway/amis/{image}/id"' in problem.hint
    made_of_ours = f'ami_made_from="{image}" if you made this AMI from {image}' in problem.hint
    assert made_of_ours != parameter.startswith("/aws/")
    assert {problems_of(way) for way in followed(cluster, problem)} == {()}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_aws_own_ami_stays_refused_whatever_is_claimed_of_it(kind: str) -> None:
    image = {"batch": "gaudi-ecs", "mpi": "cpu-mpi", "slurm": "neuron-slurm"}[kind]
    claimed: Any = {"ami_parameter": "/aws/service/deeplearning/ami/id", "ami_made_from": image}
    cluster = replace(CLUSTERS[kind], **claimed)
    (problem,) = problems_of(cluster)
    assert "without Slipway's boot" in problem.message
    assert [problems_of(way) for way in followed(cluster, problem)] == [()]


def test_every_machine_image_is_for_the_architecture_that_declarations_are_held_to() -> None:
    types_ = {name for image in MACHINE_IMAGES for name in (image.runs_on, image.instance_type)}
    assert {instance_type(name).architecture for name in types_} == {ARCHITECTURE}
