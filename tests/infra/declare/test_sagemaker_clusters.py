"""Declarations that SageMaker would refuse, or bill for nothing, are refused here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.types import FileSystem, Market
from tests.infra.declare.test_types import SOUND
from tests.infra.synthesis import SAGEMAKER_CLUSTER

RESERVED = "cr-0123456789abcdef0"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"instance_type": "p4d.24xlarge"},
            "instance_type: is 'p4d.24xlarge', but SageMaker's types begin with ml.; write 'ml.p4d.24xlarge'",
        ),
        ({"instance_type": "ml.p4d.24xlrge"}, "did you mean ml.p4d.24xlarge"),
        ({"instance_type": "ml.dl1.24xlarge"}, "which is not in the catalogue of instance types"),
        (
            {"market": Market.CAPACITY_BLOCK, "reservation_id": RESERVED},
            "market: is capacity-block, but SageMaker uses no reservation of EC2",
        ),
        ({"spot_wait_hours": 3}, "spot_wait_hours: has no effect: the market is on-demand"),
        (
            {"market": Market.SPOT, "warm_pool_minutes": 30},
            "warm_pool_minutes: is 30, but SageMaker keeps no Spot instances warm",
        ),
        ({"warm_pool_minutes": 61}, "warm_pool_minutes: is 61, not a whole number from 0 to 60"),
        ({"volume_gb": 9000}, "volume_gb: is 9000, but ml.p4d.24xlarge has 8000 GB of local storage"),
        ({"file_system": FileSystem.EFS}, "file_system: is efs, but jobs of SageMaker share FSx for Lustre"),
        ({"efa_interfaces": 4}, "efa_interfaces: is 4, but SageMaker opens every EFA interface"),
        ({"job_timeout_hours": 673}, "SageMaker ends every training job after 28 days"),
        (
            {"instance_type": "ml.trn1.32xlarge"},
            "machine_image: cannot be used: image 'sagemaker-pytorch' has no tag for neuron; it has cpu,",
        ),
        ({"machine_image": "cpu-mpi"}, "containers/images/cpu-mpi is no image of a registry"),
    ],
)
def test_training_that_could_not_work_is_refused_in_one_line(changes: dict[str, Any], said: str) -> None:
    assert problems_of(SAGEMAKER_CLUSTER) == ()
    found = list(map(str, problems_of(replace(SAGEMAKER_CLUSTER, **changes))))
    assert said in "\n".join(found)
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ml.c6i.16xlarge", "write 'c6i.16xlarge'"),
        ("ml.p4d.24xlarge", "write 'p4d.24xlarge', or declare a SageMakerCluster"),
    ],
)
def test_nodes_of_our_own_are_no_types_of_sagemaker(name: str, hint: str) -> None:
    (problem,) = problems_of(replace(SOUND, instance_type=name))
    assert f"is '{name}', SageMaker's name of a type; {hint}" in str(problem)


def test_a_type_whose_regions_nobody_knows_is_taken_in_any() -> None:
    cluster = replace(SAGEMAKER_CLUSTER, region="eu-west-1", zone="eu-west-1c")
    assert problems_of(replace(cluster, instance_type="ml.p3.16xlarge")) == ()
