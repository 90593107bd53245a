"""Declarations of clusters on HyperPod: what SageMaker or the nodes would refuse is refused here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.session import Session

from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.hyperpod_types import HYPERPOD_TYPES
from slipway.infra.declare.types import Egress, FileSystem, HyperPodCluster, Market
from slipway.jobs.words.catalogue.instances import training_types

SOUND = HyperPodCluster(
    name="pod",
    instance_type="ml.trn1.32xlarge",
    max_nodes=4,
    region="us-east-1",
    zone="us-east-1a",
    budget_usd_per_month=50_000,
    alert_email="team@example.org",
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"instance_type": "trn1.32xlarge"},
            "instance_type: is 'trn1.32xlarge', but SageMaker's types begin",
        ),
        (
            {"instance_type": "ml.trn1.2xlarge", "max_nodes": 1},
            "instance_type: is ml.trn1.2xlarge, which HyperPod does not have",
        ),
        (
            {"controller_instance_type": "ml.c7i.24xlarge"},
            "controller_instance_type: is ml.c7i.24xlarge, which HyperPod does not have",
        ),
        (
            {"login_instance_type": "ml.c7i.48xlarge"},
            "login_instance_type: is ml.c7i.48xlarge, which HyperPod does not have",
        ),
        (
            {"instance_type": "ml.p4d.24xlarge"},
            "instance_type: is ml.p4d.24xlarge, whose NVIDIA A100 40GB nothing in a HyperPodCluster drives",
        ),
        (
            {"machine_image": "gaudi-ecs"},
            "machine_image: is gaudi-ecs, which has no python and no neuron-driver",
        ),
        ({"market": Market.SPOT}, "market: is spot, but nodes of HyperPod are bought on demand"),
        (
            {"market": Market.CAPACITY_BLOCK, "reservation_id": "cr-0123456789abcdef0"},
            "market: is capacity-block, but nodes of HyperPod are bought on demand",
        ),
        ({"file_system": FileSystem.EFS}, "file_system: is efs, but nodes of HyperPod share FSx for Lustre"),
        ({"egress": Egress.ENDPOINTS}, "egress: is endpoints, but each new node of HyperPod installs"),
        ({"efa_interfaces": 8}, "efa_interfaces: is 8, but SageMaker opens every EFA interface"),
        ({"threads_per_core": 3}, "threads_per_core: is 3; allowed are 1, 2"),
        ({"volume_gb": 20_000}, "volume_gb: is 20000, not a whole number from 1 to 16384 GB"),
    ],
)
def test_a_cluster_on_hyperpod_that_could_not_work_is_refused(changes: dict[str, Any], said: str) -> None:
    assert problems_of(SOUND) == ()
    found = problems_of(replace(SOUND, **changes))
    assert said in "\n".join(map(str, found))
    assert all("\n" not in str(problem) for problem in found)


def test_the_types_are_those_of_the_catalogue_that_createcluster_takes() -> None:
    model = Session().get_service_model("sagemaker")
    taken = set(model.shape_for("ClusterInstanceType").enum)
    assert {type_.name for type_ in training_types() if type_.name in taken} == HYPERPOD_TYPES
