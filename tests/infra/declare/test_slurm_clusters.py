"""Declarations of Slurm clusters that AWS PCS, EFA or the machine image would refuse are refused here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.checks.clusters import problems_of
from slipway.infra.declare.types import ControllerSize, FileSystem, SlurmCluster

SOUND_SLURM = SlurmCluster(
    name="trn1",
    instance_type="trn1.32xlarge",
    max_nodes=16,
    region="us-east-1",
    zone="us-east-1a",
    budget_usd_per_month=5000,
    alert_email="team@example.org",
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"instance_type": "trn1.2xlarge", "max_nodes": 2},
            "max_nodes: is 2, but nodes of trn1.2xlarge cannot train together without EFA",
        ),
        (
            {"instance_type": "trn1.2xlarge", "max_nodes": 1, "efa_interfaces": 1},
            "efa_interfaces: is 1, but trn1.2xlarge has no EFA",
        ),
        ({"efa_interfaces": 16}, "efa_interfaces: is 16; trn1.32xlarge takes 0 to 8"),
        (
            {"controller": ControllerSize.SMALL, "max_nodes": 64},
            "max_nodes: is 64, but a small controller has room for 31 workers",
        ),
        ({"file_system": FileSystem.NONE}, "file_system: is none, but the home and the folders of jobs"),
        ({"max_nodes": 4000}, "max_nodes: is 4000, not a whole number from 1 to 2047"),
    ],
)
def test_a_slurm_cluster_that_could_not_work_is_refused(changes: dict[str, Any], said: str) -> None:
    assert problems_of(SOUND_SLURM) == ()
    assert said in "\n".join(map(str, problems_of(replace(SOUND_SLURM, **changes))))
