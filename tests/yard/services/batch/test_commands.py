"""`slipway yard kill-node` and what `slipway yard status` says of jobs."""

from __future__ import annotations

import json

import pytest

from slipway.jobs.cli.cli import run
from slipway.yard.machines.isolation.tiers import TIERS
from slipway.yard.services.batch.differences import LEFT_OUT
from tests.yard.services.batch.conftest import FOREVER, Cluster


@pytest.fixture(autouse=True)
def home(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(cluster.yard.home))


def test_a_node_is_killed_by_command(cluster: Cluster) -> None:
    job = cluster.submit(FOREVER)
    cluster.says(job, "ready", 1)
    assert run(("yard", "kill-node", "tri", "1")) == 0
    cluster.until(lambda: cluster.describe(f"{job}#1")["container"].get("exitCode") == 137)
    assert cluster.describe(job)["status"] == "RUNNING"


def test_a_node_that_is_not_there_is_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    job = cluster.submit(FOREVER)
    cluster.says(job, "ready")
    for wrong, words in (
        ((job, "2"), "has no node 2; it has 0 to 1"),
        (("absent", "0"), f"'absent' matches 0 running jobs; name one of: trial ({job})"),
    ):
        assert run(("yard", "kill-node", *wrong)) != 0
        assert words in capsys.readouterr().err
    assert cluster.describe(job)["status"] == "RUNNING"


def test_status_says_what_is_kept_apart_and_what_is_left_out(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tier: str
) -> None:
    assert run(("yard", "status", "--json")) == 0
    said = json.loads(capsys.readouterr().out)["batch_jobs"]
    words = next(each.words for each in TIERS if each.name == tier)
    assert said[0] == f"isolation: {words}"
    assert said[1].startswith("homes: ")
    assert said[2].endswith(str(cluster.yard.home / "tmp" / "batch" / "file-systems"))
    assert len(said) == 3 + len(LEFT_OUT)
