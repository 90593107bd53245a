"""For random types, AMIs, containers, files, zones and markets, the tables here say what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.types import Cluster, Egress, FileSystem, Market, NodeCluster
from slipway.jobs.words.catalogue.instances import InstanceType, every_instance_type, instance_type
from tests.infra.declare.hints import CLUSTERS, followed

CPU, X86, ARM = "", ("x86_64",), ("x86_64", "arm64")
RESERVATION = "cr-0123456789abcdef0"


@dataclass(frozen=True, slots=True)
class Ami:
    kind: str
    architectures: tuple[str, ...]
    drives: tuple[str, ...]


# What each AMI is for, written down again by hand: ours, and AWS's own.
AMIS: Mapping[str, Ami] = {
    "gaudi-ecs": Ami("batch", X86, (CPU, "Habana")),
    "ecs": Ami("batch", ARM, (CPU,)),
    "ecs-nvidia": Ami("batch", X86, ("NVIDIA",)),
    "ecs-neuron": Ami("batch", X86, (CPU, "Trainium2")),
    "cpu-mpi": Ami("mpi", X86, (CPU,)),
    "gaudi-mpi": Ami("mpi", X86, (CPU, "Habana")),
    "neuron-slurm": Ami("slurm", X86, (CPU, "Trainium1")),
    "pcs": Ami("slurm", X86, (CPU, "NVIDIA")),  # AWS has it for arm64, too, and no container for that
}
# The containers, by the devices that each trains on. A node of processors starts any for its architecture.
CONTAINERS: Mapping[str, frozenset[tuple[str, str]]] = {
    "cpu": frozenset({(CPU, "x86_64"), (CPU, "arm64")}),
    "gaudi": frozenset({("Habana", "x86_64")}),
    "gpu": frozenset({("NVIDIA", "x86_64")}),
    "neuron": frozenset({("Trainium2", "x86_64")}),
    "pytorch": frozenset({(CPU, "x86_64"), ("NVIDIA", "x86_64")}),
    "sagemaker-pytorch": frozenset(),
}
OF_NO_USE = ("AMD", "Inferentia", "Inferentia2", "Qualcomm")  # they infer, or our images lack their software
SOLD_AS_BLOCKS = ("p", "trn")  # EC2 user guide, "Capacity Blocks for ML"


def device(type_: InstanceType) -> str:
    """The first word of the accelerator, with V100 apart: NVIDIA's open driver begins after it."""
    if type_.accelerator is None:
        return CPU
    name = type_.accelerator.name
    return name if name.startswith("NVIDIA V100") else name.split()[0]


def fits(ami: str, kind: str, type_: InstanceType) -> bool:
    known = AMIS[ami]
    return known.kind == kind and type_.architecture in known.architectures and device(type_) in known.drives


def refused(cluster: Any) -> Iterator[str]:
    """List the wrong settings, each once."""
    kind, type_ = cluster.kind, instance_type(cluster.instance_type)
    is_driven = any(fits(ami, kind, type_) for ami in AMIS)
    if not is_driven:
        yield "instance_type"
    is_sound = is_driven and (cluster.machine_image is None or fits(cluster.machine_image, kind, type_))
    if is_driven and not is_sound:
        yield "machine_image"
    if kind == "batch" and is_driven and cluster.image is not None:
        platforms = CONTAINERS[cluster.image]
        if not any(
            architecture == type_.architecture and device(type_) in (CPU, found)
            for found, architecture in platforms
        ):
            yield "image"
    if cluster.file_system is FileSystem.FSX_LUSTRE and (kind == "slurm" or is_sound):
        yield "file_system"  # Slurm's home is on EFS, and no AMI of the others has the client
    if not cluster.zone.startswith(cluster.region):
        yield "zone"
    is_spot = cluster.market is Market.SPOT
    is_block = cluster.market is Market.CAPACITY_BLOCK
    if (is_spot and kind == "batch") or (is_block and not type_.name.startswith(SOLD_AS_BLOCKS)):
        yield "market"


TYPES = sorted({device(each): each for each in every_instance_type()})
BY_DEVICE: Mapping[str, list[InstanceType]] = {
    found: [each for each in every_instance_type() if device(each) == found and each.regions]
    for found in TYPES
}
USABLE = [found for found in TYPES if BY_DEVICE[found] and found not in OF_NO_USE]


@st.composite
def clusters(draw: st.DrawFn) -> NodeCluster:
    kind = draw(st.sampled_from(sorted(CLUSTERS)))
    type_ = draw(st.sampled_from(BY_DEVICE[draw(st.sampled_from(USABLE))]))
    region = draw(st.sampled_from(type_.regions))
    market = draw(st.sampled_from(Market))
    reserved = market in (Market.TARGETED_RESERVATION, Market.CAPACITY_BLOCK)
    changes: dict[str, Any] = {
        "instance_type": type_.name,
        "max_nodes": 1,  # Trainium without EFA takes no second one
        "region": region,
        "zone": draw(st.sampled_from([f"{region}a", f"{region}c", "xx-north-9a"])),
        "egress": Egress.NAT,
        "machine_image": draw(st.none() | st.sampled_from(sorted(AMIS))),
        "file_system": draw(st.sampled_from([FileSystem.EFS, FileSystem.FSX_LUSTRE])),
        "market": market,
        "reservation_id": RESERVATION if reserved else None,
    }
    if kind == "batch":
        changes["image"] = draw(st.none() | st.sampled_from(sorted(CONTAINERS)))
    return replace(CLUSTERS[kind], **changes)


@settings(max_examples=400, deadline=None)
@given(cluster=clusters())
def test_every_wrong_pairing_is_one_line_and_its_hint_ends_it(cluster: NodeCluster) -> None:
    problems = problems_of(cluster)
    assert sorted(problem.where.rpartition(".")[2] for problem in problems) == sorted(refused(cluster))
    assert all("\n" not in str(problem) for problem in problems)
    plain = cluster.machine_image is None and cluster.file_system is FileSystem.EFS
    if [problem.where.rpartition(".")[2] for problem in problems] == ["instance_type"] and plain:
        assert {problems_of(way) for way in followed(cluster, problems[0])} == {()}, problems
    mended: Cluster = cluster
    for _ in range(len(problems) + 2):
        if not (left := problems_of(mended)):
            return
        mended = as_told(mended, left[0])
    assert problems_of(mended) == (), mended


def as_told(cluster: Cluster, problem: Any) -> Cluster:
    """Return the cluster after following the first way that the hint names."""
    if problem.where.endswith("zone"):
        return replace(cluster, zone=problem.hint.split()[-1])
    found = list(followed(cluster, problem))
    assert found, problem
    return found[0]
