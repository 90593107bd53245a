"""What an estimate counts around a cluster's nodes is what its stacks create."""

from __future__ import annotations

import pytest

from slipway.infra.declare.declared import declared_cluster
from slipway.infra.declare.types import ClusterKind
from slipway.infra.patterns.network.endpoints import (
    BATCH_SERVICES,
    MPI_SERVICES,
    SAGEMAKER_SERVICES,
    SLURM_SERVICES,
)
from slipway.jobs.estimate.inputs.places import INTERFACE_ENDPOINTS, overheads


@pytest.mark.parametrize(
    ("kind", "services"),
    [
        ("batch", BATCH_SERVICES),
        ("mpi", MPI_SERVICES),
        ("slurm", SLURM_SERVICES),
        ("sagemaker", SAGEMAKER_SERVICES),
    ],
)
def test_as_many_interface_endpoints_are_priced_as_are_made(kind: str, services: tuple[str, ...]) -> None:
    assert INTERFACE_ENDPOINTS[kind] == len(services)


def test_a_nat_gateway_takes_the_place_of_the_endpoints() -> None:
    around = overheads(declared_cluster("dl1", ["dl1.egress=nat"]))
    assert (around.interface_endpoints, around.nat_gateways) == (0, 1)


def test_a_declared_lustre_costs_its_declared_size() -> None:
    own_ami = ["dl1.ami_parameter=/own/ami", "dl1.ami_made_from=gaudi-ecs", "dl1.ami_adds=lustre-client"]
    around = overheads(declared_cluster("dl1", ["dl1.file_system=fsx-lustre", *own_ami]))
    assert (around.file_system_item, around.file_system_gib) == ("fsx-lustre-125", 1200)


def test_every_kind_of_cluster_has_its_endpoints_counted() -> None:
    """A kind without a row in jobs/estimate/inputs/places.py would seem to cost nothing around its nodes."""
    assert INTERFACE_ENDPOINTS.keys() == {kind.value for kind in ClusterKind}
