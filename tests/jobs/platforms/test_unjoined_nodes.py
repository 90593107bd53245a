"""A node that does not join reports why, and `slipway explain` of the waiting job shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.infra.declare.types import FileSystem
from slipway.jobs.platforms.batch.explain import explain
from slipway.jobs.platforms.batch.runs import gather, read_run
from slipway.jobs.platforms.on_clusters import why_nodes_did_not_join
from slipway.jobs.words.run import Found
from slipway.jobs.words.targets import BatchTarget
from tests.infra.boot.node import Node, parameters
from tests.yard.conftest import REGION, RunningYard

NOT_MOUNTED = "the cluster's shared files could not be mounted"
NO_AGENT = "its ECS agent did not register with the cluster"


def report(yard: RunningYard, folder: Path, *, mount_fails: bool) -> None:
    """Boot a node of dl1 and run its watchdog; its calls of `aws` go to the yard."""
    node = Node(folder, parameters(FileSystem.EFS))
    if mount_fails:
        node.program("mount", code=32)
    node.run("boot.sh")
    (folder / "aws").write_text(f'#!/bin/bash\necho "${{@: -1}}" > {folder}/told\n', encoding="utf-8")
    assert node.run("watch_join.sh").returncode == 0
    told = json.loads((folder / "told").read_text(encoding="utf-8"))
    yard.client("cloudwatch").put_metric_data(Namespace="Slipway", MetricData=told)


@pytest.fixture
def waiting(target: BatchTarget) -> Found[BatchTarget]:
    detail = {"jobId": "0a1b", "jobName": "bert", "status": "RUNNABLE", "statusReason": "UNDETERMINED"}
    return Found(run=read_run(detail, target), target=target, detail=detail)


@pytest.mark.parametrize(("mount_fails", "why"), [(True, NOT_MOUNTED), (False, NO_AGENT)])
def test_the_node_that_a_job_waits_for_is_the_answer(
    yard_shell: RunningYard, waiting: Found[BatchTarget], tmp_path: Path, mount_fails: bool, why: str
) -> None:
    """Let a mount fail on one of four nodes, and an agent not start."""
    report(yard_shell, tmp_path, mount_fails=mount_fails)
    told = explain(gather(waiting))
    assert told.sentence == f"bert waits for a node that does not join: {why}"
    assert "the node ends itself, the job does not: slipway cancel bert" in told.fix


def test_nodes_of_another_cluster_are_no_reason(yard_shell: RunningYard, tmp_path: Path) -> None:
    report(yard_shell, tmp_path, mount_fails=True)
    assert why_nodes_did_not_join("c6i", REGION) == ()
    assert why_nodes_did_not_join("dl1", REGION) == (NOT_MOUNTED,)


def test_where_every_node_has_joined_nothing_is_said(
    yard_shell: RunningYard, waiting: Found[BatchTarget]
) -> None:
    assert gather(waiting).unjoined == ()
