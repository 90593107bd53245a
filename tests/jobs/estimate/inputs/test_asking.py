"""`slipway.estimate` answers as the command does: the usual sizes, or those that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.asking import USUAL_SIZES, estimate

BERT = "bert_pretrain"


@pytest.fixture(autouse=True)
def nothing_of_my_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_without_sizes_the_usual_ones_are_estimated() -> None:
    assert tuple(row.nodes for row in estimate(BERT, on="dl1")) == USUAL_SIZES


def test_no_more_nodes_are_estimated_than_the_cluster_declares() -> None:
    rows = estimate("glue_finetune", on="c6i", settings={"model": "bert-base-cased"})
    assert [row.nodes for row in rows] == [1, 2, 4]


def test_one_size_is_a_number_and_more_come_in_order_once_each() -> None:
    assert [row.nodes for row in estimate(BERT, on="dl1", nodes=16)] == [16]
    assert [row.nodes for row in estimate(BERT, on="dl1", nodes=[8, 1, 8])] == [1, 8]


def test_a_size_that_cannot_work_is_refused_with_one_that_can() -> None:
    with pytest.raises(CannotEstimate) as refused:
        estimate(BERT, on="dl1", nodes=(1, 17))
    assert "17 nodes are more than the 16" in refused.value.message
    assert "at most 16" in refused.value.hint


def test_nothing_fits_is_refused_and_not_an_empty_answer() -> None:
    with pytest.raises(CannotEstimate, match="cannot train on"):
        estimate(BERT, on="trn1.32xlarge")
