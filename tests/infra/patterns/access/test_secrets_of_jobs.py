"""Jobs of every kind of cluster read the secrets that users keep for them, and no others."""

from __future__ import annotations

import pytest

from slipway.infra.declare.types import Cluster
from tests.infra.synthesis import (
    CLUSTER,
    MPI_CLUSTER,
    SAGEMAKER_CLUSTER,
    SLURM_CLUSTER,
    of_type,
    templates_of,
)

ACTION = "secretsmanager:GetSecretValue"


@pytest.mark.parametrize("cluster", [CLUSTER, MPI_CLUSTER, SLURM_CLUSTER, SAGEMAKER_CLUSTER])
def test_one_role_reads_secrets_below_one_prefix(cluster: Cluster) -> None:
    granted = [
        statement
        for policy in of_type(templates_of(cluster).compute, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Sid"] == "ReadSecretsOfJobs"
    ]
    assert [statement["Action"] for statement in granted] == [ACTION]
    (resource,) = [statement["Resource"] for statement in granted]
    text = "".join(part for part in resource["Fn::Join"][1] if isinstance(part, str))
    assert text.endswith(":secret:slipway/jobs/*")
