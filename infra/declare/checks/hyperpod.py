"""What the settings of a cluster on HyperPod must be to each other; rules.py lists them."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.checks.node_images import fitting_images
from slipway.infra.declare.hyperpod_types import HYPERPOD_TYPES
from slipway.infra.declare.types import Cluster, Egress, FileSystem, HyperPodCluster, Market
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem


def types_of_hyperpod(cluster: Cluster) -> Iterator[Problem]:
    """Check each group's type: SageMaker trains on more types than HyperPod has."""
    assert isinstance(cluster, HyperPodCluster)
    for where in ("instance_type", "controller_instance_type", "login_instance_type"):
        name = getattr(cluster, where)
        if name is not None and name not in HYPERPOD_TYPES:
            is_worker = where == "instance_type"
            fit = [each for each in sorted(HYPERPOD_TYPES) if not is_worker or _is_driven(each)]
            yield Problem(
                where=where,
                message=f"is {name}, which HyperPod does not have",
                hint=f"of this catalogue it has {', '.join(fit)}",
            )


def _is_driven(name: str) -> bool:
    return bool(fitting_images(HyperPodCluster, instance_type(name)))


def bought_on_demand(cluster: Cluster) -> Iterator[Problem]:
    if cluster.market is not Market.ON_DEMAND:
        yield Problem(
            where="market",
            message=f"is {cluster.market}, but nodes of HyperPod are bought on demand here",
            hint="use Market.ON_DEMAND; HyperPod takes neither EC2's reservations nor its Spot requests",
        )


def files_that_hyperpod_mounts(cluster: Cluster) -> Iterator[Problem]:
    """Check for the file system that HyperPod mounts by itself, with no package of ours."""
    if cluster.file_system is not FileSystem.FSX_LUSTRE:
        yield Problem(
            where="file_system",
            message=f"is {cluster.file_system}, but nodes of HyperPod share FSx for Lustre, which it mounts",
            hint="use FileSystem.FSX_LUSTRE: homes and the folders of jobs are there",
        )


def nodes_that_reach_the_internet(cluster: Cluster) -> Iterator[Problem]:
    """Check for a NAT gateway: nodes come with HyperPod's AMI, and install the lock's packages first."""
    if cluster.egress is not Egress.NAT:
        yield Problem(
            where="egress",
            message=f"is {cluster.egress}, but each new node of HyperPod installs locked packages of PyPI",
            hint="use Egress.NAT",
        )


def threads_that_a_core_has(cluster: Cluster) -> Iterator[Problem]:
    """Check ThreadsPerCore against the type (API reference, ClusterInstanceGroupSpecification)."""
    assert isinstance(cluster, HyperPodCluster)
    allowed = instance_type(cluster.instance_type).threads_per_core
    if allowed and cluster.threads_per_core not in allowed:
        yield Problem(
            where="threads_per_core",
            message=f"is {cluster.threads_per_core}, but {cluster.instance_type} takes "
            f"{' or '.join(map(str, allowed))}",
            hint=f"use {allowed[0]}",
        )
