"""DL1 without AWS Batch: the road's commands on two machines, on which processors stand in for the Gaudis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import deployed
from tests.packages import require

require("deepspeed", reason="the extra 'deepspeed' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

ON = ("--on", "dl1-mpi", "--nodes", "2", "--processes-per-node", "1", "--follow")
TINY = {"size": "tiny", "zero": "1", "precision": "fp32", "micro_batch": "8", "steps": "4", "log_every": "2"}


@pytest.fixture(scope="module")
def cluster(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not best_tier().isolated:
        pytest.skip("this machine can make no namespaces, so its hosts have no network of their own")
    with deployed(shell, tmp_path_factory.mktemp("assembly"), "dl1-mpi", max_nodes="2"):
        yield replace(shell, environment={**shell.environment, "SLIPWAY_CONFIRM_COST": "100000"})


def test_the_nodes_reduce_together_and_then_train_together(cluster: Shell) -> None:
    smoke = cluster.must("slipway", "submit", "smoke", *ON, "--set", "largest_mib=1")
    assert "2 ranks of 2 nodes meet; all_reduce over gloo" in smoke
    assert "processors stand in for 8 habana devices" in smoke
    made = ("--set", "sample_megabytes=1", "--set", "duplicates=1")
    cluster.must("slipway", "submit", "prepare_bert", *ON, *made)
    settings = [word for pair in TINY.items() for word in ("--set", "=".join(pair))]
    trained = cluster.must("slipway", "submit", "bert_pretrain", *ON, *settings)
    assert "step 4/4" in trained
    run = cluster.data("slipway", "status", "bert_pretrain", "--json")
    assert (run["state"], run["exit_code"], run["nodes"]) == ("succeeded", 0, 2)


def test_the_way_around_the_unsupported_pair_is_named(cluster: Shell) -> None:
    """AWS Batch supports multi-node jobs on Amazon Linux, and Habana Ubuntu."""
    said = cluster.run("slipway", "preflight", "dl1").text
    assert "the other way, over MPI: slipway preflight dl1-mpi" in " ".join(said.split())
