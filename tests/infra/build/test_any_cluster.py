"""Every valid declaration keeps the promises of the clusters that we ship."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.s3_prefix_lists import S3_PREFIX_LISTS
from slipway.infra.declare.types import (
    BatchCluster,
    Cluster,
    ControllerSize,
    Egress,
    FileSystem,
    Market,
    Mpi,
    MpiCluster,
    SlurmCluster,
)
from slipway.infra.verify.rules import RULES
from slipway.jobs.words.catalogue.instances import InstanceType, instance_types
from slipway.jobs.words.slurm import CONTROLLERS
from tests.infra.synthesis import (
    CLUSTER,
    MPI_CLUSTER,
    SLURM_CLUSTER,
    Templates,
    of_type,
    only,
    synthesize,
)

RESERVED = (Market.TARGETED_RESERVATION, Market.CAPACITY_BLOCK)


def driven(*makers: str) -> list[InstanceType]:
    """List the types that the images of a kind drive: processors, and these makers' accelerators."""
    return [
        each
        for each in instance_types()
        if each.architecture == "x86_64"
        and (each.accelerator is None or each.accelerator.name.split()[0] in makers)
    ]


def drawn(draw: st.DrawFn, facts: InstanceType, *, never: Market) -> dict[str, Any]:
    """Draw the settings that every kind has, for machines of a type."""
    region = draw(st.sampled_from(sorted(set(facts.regions or S3_PREFIX_LISTS) & set(S3_PREFIX_LISTS))))
    market = draw(st.sampled_from([each for each in Market if each is not never]))
    return {
        "instance_type": facts.name,
        "region": region,
        "zone": f"{region}{draw(st.sampled_from('abc'))}",
        "account": draw(st.sampled_from([None, "123456789012"])),
        "efa_interfaces": draw(st.none() | st.integers(0, facts.efa_interfaces)),
        "market": market,
        "reservation_id": "cr-0123456789abcdef0" if market in RESERVED else None,
        "egress": draw(st.sampled_from(Egress)),
        "log_retention_days": draw(st.sampled_from([1, 30, 365, 3653])),
        "keep_data": draw(st.booleans()),
        "tags": draw(st.dictionaries(st.sampled_from(["team", "größe"]), st.text("ab 東", max_size=9))),
    }


@st.composite
def clusters(draw: st.DrawFn) -> BatchCluster:
    sort = draw(st.sampled_from(FileSystem))
    lustre = sort is FileSystem.FSX_LUSTRE
    return replace(
        CLUSTER,
        **drawn(draw, draw(st.sampled_from(driven("Habana"))), never=Market.SPOT),
        name=draw(st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)),
        max_nodes=draw(st.integers(1, 64)),
        file_system=sort,
        fsx_capacity_gib=draw(st.sampled_from([1200, 2400, 7200])) if lustre else 1200,
        fsx_mbps_per_tib=draw(st.sampled_from([125, 250, 500, 1000])) if lustre else 125,
        job_attempts=draw(st.integers(1, 10)),
        runnable_timeout_minutes=draw(st.integers(10, 1440)),
        job_timeout_hours=draw(st.integers(1, 8760)),
        ami_parameter="/mine/ami" if lustre else CLUSTER.ami_parameter,
        ami_made_from="gaudi-ecs" if lustre else None,
        ami_adds=("lustre-client",) if lustre else (),
    )


@st.composite
def machines(draw: st.DrawFn) -> MpiCluster:
    common = drawn(draw, draw(st.sampled_from(driven())), never=Market.CAPACITY_BLOCK)
    # On Spot without a file system a checkpoint would be lost with its machine.
    files = [FileSystem.EFS, *([FileSystem.NONE] if common["market"] is not Market.SPOT else [])]
    mpi = draw(st.sampled_from(Mpi))
    is_held = mpi is Mpi.OPEN_MPI
    return replace(
        MPI_CLUSTER,
        **common,
        max_nodes=draw(st.integers(1, 50)),
        file_system=draw(st.sampled_from(files)),
        mpi=mpi,
        ssh_cidrs=draw(st.sampled_from([(), ("10.0.0.0/8",), ("10.1.0.0/16", "192.168.0.0/24")])),
        idle_minutes=draw(st.none() | st.integers(10, 1440)),
        start_at=draw(st.sampled_from([None, "0 8 * * MON-FRI"])),
        stop_at=draw(st.sampled_from([None, "0 20 * * *"])),
        ami_parameter=MPI_CLUSTER.ami_parameter if is_held else "/mine/ami",
        ami_made_from=None if is_held else "cpu-mpi",
        ami_adds=() if is_held else (str(mpi),),
    )


@st.composite
def slurm_clusters(draw: st.DrawFn) -> SlurmCluster:
    facts = draw(st.sampled_from(driven("Trainium1", "Trainium2")))
    common = drawn(draw, facts, never=Market.SPOT)
    # Nodes with accelerators and without EFA cannot train together.
    together = facts.accelerator is None or (facts.has_efa and common["efa_interfaces"] != 0)
    controller, most = draw(st.sampled_from([(None, 600), *((size, 31) for size in ControllerSize)]))
    return replace(
        SLURM_CLUSTER,
        **common,
        max_nodes=draw(st.integers(1, most)) if together else 1,
        controller=controller,
        ami_parameter="/mine/ami",
        ami_made_from="neuron-slurm",
        ami_adds=("lustre-client",),
        scratch=draw(st.booleans()),
        rest_api=draw(st.booleans()),
        idle_minutes=draw(st.integers(1, 1440)),
        job_timeout_hours=draw(st.integers(1, 8760)),
    )


def sound_templates(cluster: Cluster) -> Templates:
    """Synthesize the cluster, and check its templates by every rule."""
    templates = synthesize(cluster)
    found = [(name, *rule(template)) for template in templates.all() for name, rule in RULES.items()]
    assert [each for each in found if len(each) > 1] == []
    return templates


@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])
@given(cluster=slurm_clusters())
def test_every_sound_declaration_of_a_slurm_cluster_becomes_templates_that_pass_every_rule(
    cluster: SlurmCluster,
) -> None:
    assume(not problems_of(cluster))
    templates = sound_templates(cluster)
    groups = of_type(templates.compute, "AWS::PCS::ComputeNodeGroup").values()
    sizes = {group["Name"]: group["ScalingConfiguration"] for group in groups}
    assert sizes == {
        "login": {"MinInstanceCount": 1, "MaxInstanceCount": 1},
        "workers": {"MinInstanceCount": 0, "MaxInstanceCount": cluster.max_nodes},
    }
    room = CONTROLLERS[only(templates.compute, "AWS::PCS::Cluster")["Size"].lower()]
    assert sum(size["MaxInstanceCount"] for size in sizes.values()) <= room


@settings(max_examples=12)
@given(cluster=machines())
def test_every_sound_declaration_of_machines_becomes_templates_that_pass_every_rule(
    cluster: MpiCluster,
) -> None:
    assert problems_of(cluster) == ()
    templates = sound_templates(cluster)
    group = only(templates.compute, "AWS::AutoScaling::AutoScalingGroup")
    assert group["MaxSize"] == str(cluster.max_nodes)
    assert only(templates.compute, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["InstanceType"] == (
        cluster.instance_type
    )


@settings(max_examples=12, suppress_health_check=[HealthCheck.filter_too_much])
@given(cluster=clusters())
def test_every_sound_declaration_becomes_templates_that_pass_every_rule(cluster: BatchCluster) -> None:
    assume(not problems_of(cluster))
    templates = sound_templates(cluster)
    pool = only(templates.compute, "AWS::Batch::ComputeEnvironment")["ComputeResources"]
    assert pool["InstanceTypes"] == [cluster.instance_type]
    assert pool["MaxvCpus"] >= cluster.max_nodes
    assert len(of_type(templates.compute, "AWS::SSM::Parameter")) == 1
