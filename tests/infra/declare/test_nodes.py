"""No kind of cluster takes a node that cannot work, and what a refusal names instead works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.infra.declare import types
from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.checks.nodes import defaults_of
from slipway.infra.declare.types import Cluster, ClusterKind, Egress, FileSystem, Mpi
from slipway.jobs.words.catalogue.hardware import unusable
from slipway.jobs.words.catalogue.instances import InstanceType, every_instance_type, instance_type
from tests.infra.declare.hints import CLUSTERS, OWN, followed

# What the AMI and the image that a kind has by default can use: no accelerator, or one of these makers.
DRIVEN = {"batch": ("Habana",), "mpi": (), "slurm": ("Trainium1", "Trainium2")}
GAUDI_MPI = {"machine_image": "gaudi-mpi", "ami_parameter": "/slipway/amis/gaudi-mpi/id"}
SAGEMAKER_TODAY = "GPUs run on SageMaker today: use SageMakerCluster"


def of_type(kind: str, type_: InstanceType, region: str = "") -> Cluster:
    """A cluster of one node where the type is offered: without EFA, Trainium takes no second one."""
    region = region or next(iter(type_.regions), "us-east-1")
    changes: dict[str, Any] = {"instance_type": type_.name, "region": region, "zone": f"{region}a"}
    return replace(CLUSTERS[kind], max_nodes=1, egress=Egress.NAT, **changes)


def each_sort_of_type() -> Iterator[InstanceType]:
    """Every type with accelerators, and one of each family without: sizes of it differ in no rule."""
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
        maker = type_.accelerator.name.split()[0] if type_.accelerator else None
        works = type_.architecture == "x86_64" and maker in (None, *DRIVEN[kind])
        cluster = of_type(kind, type_)
        problems = problems_of(cluster)
        assert (problems == ()) == works, (kind, type_.name, problems)
        if problems and not unusable(type_):
            (problem,) = problems
            ways = [problems_of(way) for way in followed(cluster, problem)]
            assert ways, problem
            assert set(ways) == {()}, problem


@given(
    kind=st.sampled_from(sorted(CLUSTERS)),
    type_=st.sampled_from(
        [each for each in every_instance_type() if each.accelerator and not unusable(each)]
    ),
    data=st.data(),
)
def test_a_refusal_of_an_accelerator_names_what_is_offered_in_the_region(
    kind: str, type_: InstanceType, data: st.DataObject
) -> None:
    region = data.draw(st.sampled_from(type_.regions or ("us-east-1",)))
    cluster = of_type(kind, type_, region)
    for problem in problems_of(cluster):
        assert {problems_of(way) for way in followed(cluster, problem)} == {()}, problem


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize(
    ("type_name", "named"),
    [
        ("p5.48xlarge", '"ml.p5.48xlarge"'),
        ("g5.xlarge", '"ml.g5.xlarge"'),
        ("g4dn.xlarge", '"ml.g4dn.xlarge", volume_gb=125'),  # a larger one does not fit on its disk
        ("g4dn.metal", '"ml.g4dn.12xlarge"'),  # which SageMaker does not have itself
        ("g5g.xlarge", '"ml.g4dn.xlarge", volume_gb=125'),  # nor any GPU with Graviton
    ],
)
def test_a_gpu_is_refused_in_one_line_that_names_the_road_of_today(
    kind: str, type_name: str, named: str
) -> None:
    cluster = of_type(kind, instance_type(type_name))
    (problem,) = problems_of(cluster)
    assert f"is {type_name}, whose NVIDIA " in problem.message
    assert problem.message.endswith(f" nothing in a {type(cluster).__name__} drives")
    assert problem.hint == f"{SAGEMAKER_TODAY}(instance_type={named})"


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
                'use BatchCluster(instance_type="dl1.24xlarge") or MpiCluster(instance_type="dl1.24xlarge", '
                'machine_image="gaudi-mpi", ami_parameter="/slipway/amis/gaudi-mpi/id")'
            ),
        ),
        (
            "mpi",
            {"instance_type": "dl1.24xlarge"},
            (
                "machine_image: is cpu-mpi, which has no synapseai and no training-python, so that nothing "
                "drives the Habana Gaudi HL-205 of dl1.24xlarge; "
                'use machine_image="gaudi-mpi", ami_parameter="/slipway/amis/gaudi-mpi/id"'
            ),
        ),
        (
            "batch",
            {"instance_type": "c7g.16xlarge"},
            (
                "instance_type: is c7g.16xlarge, which is arm64, but Slipway's AMIs are x86_64; "
                'use instance_type="c6i.16xlarge"'
            ),
        ),
        (
            "mpi",
            {"instance_type": "c7gn.16xlarge", "efa_interfaces": 1},
            'use instance_type="c6i.32xlarge"',
        ),
        (
            "slurm",
            {"login_instance_type": "c7g.large"},
            "login_instance_type: is c7g.large (arm64), but Slipway's AMIs are x86_64; use a type of x86_64",
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
            {"machine_image": "neuron-slurm", "ami_parameter": "/slipway/amis/neuron-slurm/id"},
            "machine_image: is neuron-slurm, which has no open-mpi; use machine_image",
        ),
        (
            "slurm",
            {"machine_image": "cpu-mpi", "ami_parameter": "/slipway/amis/cpu-mpi/id"},
            "machine_image: is cpu-mpi, which has no slurm and no pcs-agent and no neuron-driver",
        ),
        (
            "batch",
            {"image": "cpu"},
            (
                "image: is cpu, which has no synapseai, so that nothing drives the Habana Gaudi HL-205 of "
                'dl1.24xlarge; use image="gaudi"'
            ),
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
            {"ami_parameter": "/slipway/amis/cpu-mpi/id"},
            "is /slipway/amis/cpu-mpi/id, but machine_image is neuron-slurm; use ami_parameter",
        ),
        (
            "mpi",
            {"ami_parameter": "/slipway/amis/gaudi-ecs/id"},
            (
                "ami_parameter: is /slipway/amis/gaudi-ecs/id, but machine_image is cpu-mpi; use "
                'ami_parameter="/slipway/amis/cpu-mpi/id"'
            ),
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
        ("batch", {"instance_type": "c6i.xlarge"}),  # a processor boots Gaudi's AMI, to try the rest of it
        ("batch", {"instance_type": "c6i.xlarge", "image": "cpu"}),
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
        (
            "mpi",
            {"ami_parameter": OWN, "ami_made_from": "cpu-mpi", "ami_adds": ("mpich",), "mpi": Mpi.MPICH},
        ),
        ("slurm", {"instance_type": "c6i.large"}),
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
