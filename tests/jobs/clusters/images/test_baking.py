"""A bake that failed says what to do about it."""

from __future__ import annotations

import pytest

from slipway.jobs.clusters.images.baking import BakeFailed, refuse_failure

ARN = "arn:aws:imagebuilder:us-east-1:123456789012:image/slipway-bakery-cpu-mpi/1.0.0/1"


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (
            "VcpuLimitExceeded: You have requested more vCPU capacity",
            "slipway cluster quota CLUSTER --request",
        ),
        ("step build.InstallPackages failed: exit code 1", "fix the component"),
    ],
)
def test_a_bake_that_the_quota_stops_names_the_command_that_asks_for_more(reason: str, hint: str) -> None:
    with pytest.raises(BakeFailed) as failed:
        refuse_failure({"arn": ARN, "state": {"status": "FAILED", "reason": reason}})
    assert reason in failed.value.message
    assert hint in failed.value.hint
