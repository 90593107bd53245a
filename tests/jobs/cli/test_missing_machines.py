"""A machine that AWS does not start is told of in AWS's words, by every command that misses it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slipway.jobs.words.targets import SlurmTarget, encode_target, parameter_name
from slipway.yard.endpoint import control
from tests.jobs.conftest import Slipway
from tests.jobs.words.test_targets import SLURM_TARGET
from tests.yard.conftest import RunningYard
from tests.yard.services.pcs.pcs_site import PcsSite

PATIENCE_S = 60.0
ONE: Mapping[str, Any] = {"scalingConfiguration": {"minInstanceCount": 1, "maxInstanceCount": 1}}
SAID = (
    "no login node of 'trn1' is running: AWS says VcpuLimitExceeded: You have requested more vCPU capacity "
    "than your current vCPU limit of 0"
)
FIX = "slipway cluster quota trn1 --request"


@pytest.fixture
def target(yard_shell: RunningYard) -> SlurmTarget:
    """A Slurm cluster of a fresh account, which starts no login node."""
    control(yard_shell, "POST", "/reset")
    site = PcsSite(yard_shell)
    cluster = site.cluster()["id"]
    login = site.node_group(cluster, "login", **ONE)["id"]
    workers = site.node_group(cluster)["id"]
    deadline = time.monotonic() + PATIENCE_S
    while not site.errors(cluster, login):
        assert time.monotonic() < deadline, "PCS never says why it starts no login node"
    made = replace(SLURM_TARGET, scheduler_cluster=cluster, login_group=login, node_group=workers)
    record = {"Name": parameter_name(made.name), "Value": encode_target(made), "Type": "String"}
    yard_shell.client("ssm").put_parameter(**record)
    return made


def test_targets_and_status_say_why_no_login_node_runs(target: SlurmTarget, slipway: Slipway) -> None:
    code, _, said = slipway("cluster", "targets", "trn1")
    assert code == 0
    assert f"warning: {SAID}" in said
    assert FIX in said
    code, _, said = slipway("status", "--on", "trn1")
    assert code == 1
    assert f"error: {SAID}" in said
    assert f"hint: {FIX}" in said


def test_preflight_says_it_and_counts_the_login_node_beside_other_clusters(
    target: SlurmTarget, slipway: Slipway
) -> None:
    code, out, _ = slipway("preflight", "trn1", "--json")
    rows = {row["check"]: row for row in json.loads(out)}
    assert code == 1
    assert rows["machines that start"]["outcome"] == "failed"
    assert rows["machines that start"]["found"].startswith(SAID)
    assert rows["machines that start"]["fix"].startswith(FIX)
    assert "1 login node × 2 vCPUs = 2 vCPUs and 256 of c6i, 258 in all" in rows["vCPU quota"]["found"]


def test_a_list_of_targets_asks_no_cluster_why(target: SlurmTarget, slipway: Slipway) -> None:
    assert slipway("cluster", "targets")[2] == ""
