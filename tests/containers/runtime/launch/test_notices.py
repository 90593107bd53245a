"""F30: if EC2 takes a Spot instance back, all ranks save and the job ends resumable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.slurm.node import health
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths
from tests.containers.instance_metadata import INTERRUPTION, REBALANCE, Metadata, instance_metadata
from tests.containers.runtime.nodes import Cluster, ready
from tests.fault_clock import FaultClock


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with instance_metadata() as served:
        yield served


def notice(seconds: float) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return json.dumps({"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")})


def spot(metadata: Metadata) -> dict[str, Any]:
    return {"SLIPWAY_MARKET": "spot", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.endpoint}


def test_a_notice_to_one_node_lets_all_nodes_save_in_the_two_minutes(
    cluster: Cluster, metadata: Metadata, fault: FaultClock
) -> None:
    main = cluster.start({"*": ["save"]}, nodes=2)
    child = cluster.start({"*": ["save"]}, node=1, nodes=2, **spot(metadata))
    ready([main, child])
    metadata.documents[INTERRUPTION] = notice(120)
    fault.strikes()
    main.until("EC2 reclaims")
    fault.is_seen()
    assert [main.end(), child.end()] == [85, 85]
    fault.is_over()
    assert cluster.saved() == ["0", "1"]
    assert "node 1: EC2 reclaims this Spot instance (terminate at " in main.text
    given = [line.rpartition("ranks have ")[2].split()[0] for line in main.lines if "ranks have" in line]
    assert 100 < float(given[0]) < 120, "more than after a signal, as the machine stays that long"


def test_the_job_resumes_though_no_rank_came_to_save(cluster: Cluster, metadata: Metadata) -> None:
    metadata.documents[INTERRUPTION] = notice(120)
    node = cluster.start({"*": ["wait"]}, **spot(metadata))
    assert node.end() == 85
    assert "was killed by SIGTERM (exit code 143); the next attempt resumes" in node.lines[-1]


@pytest.mark.parametrize("text", ["", "[]", "null", '{"action": 7}', '{"action": "stop", "time": "soon"}'])
def test_a_notice_that_cannot_be_read_counts_all_the_same(
    cluster: Cluster, metadata: Metadata, text: str
) -> None:
    metadata.documents[INTERRUPTION] = text
    node = cluster.start({"*": ["wait"]}, **spot(metadata))
    assert node.end() == 85
    assert "EC2 reclaims this Spot instance: ranks have 25 s" in node.text


def test_a_token_that_has_run_out_is_asked_for_again(cluster: Cluster, metadata: Metadata) -> None:
    node = cluster.start({"*": ["save"]}, **spot(metadata))
    ready([node])
    metadata.tokens.clear()
    metadata.documents[INTERRUPTION] = notice(120)
    assert node.end() == 85
    assert (401, INTERRUPTION) in metadata.asked


def test_a_worker_of_slurm_that_ec2_takes_back_is_fit_for_no_other_job(
    metadata: Metadata,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Slurm would give it the job that it just ended, and all attempts would be lost on it."""
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.endpoint)
    where, facts = SlurmNodePaths(root=tmp_path), SlurmNodeFacts(instance_type="c6i.large")
    assert health.check_node(where, facts) == 0
    metadata.documents[INTERRUPTION] = notice(120)
    assert health.check_node(where, facts) == 1
    assert "slipway: EC2 takes this Spot instance back" in capsys.readouterr().err


def test_a_rebalance_recommendation_is_said_once_and_ends_nothing(
    cluster: Cluster, metadata: Metadata
) -> None:
    """It may come hours ahead, or for nothing."""
    metadata.documents[REBALANCE] = json.dumps({"noticeTime": "2026-11-21T08:22:00Z"})
    node = cluster.start({"*": ["save"]}, **spot(metadata))
    ready([node])
    node.until("may be interrupted soon")
    metadata.documents[INTERRUPTION] = notice(120)
    assert node.end() == 85
    assert node.text.count("may be interrupted soon") == 1


def test_an_instance_that_is_not_spot_is_not_asked(cluster: Cluster, metadata: Metadata) -> None:
    metadata.documents[INTERRUPTION] = notice(120)
    node = cluster.start({"*": ["show"]}, AWS_EC2_METADATA_SERVICE_ENDPOINT=metadata.endpoint)
    assert node.end() == 0
    assert metadata.asked == []


def test_metadata_that_does_not_answer_disturbs_no_training(cluster: Cluster) -> None:
    """F29"""
    closed: dict[str, Any] = {
        "SLIPWAY_MARKET": "spot",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
    }
    node = cluster.start({"*": ["show"]}, **closed)
    assert node.end() == 0
