"""A share of the data is held out, and none of its rows is trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

from slipway.containers.data.rows.loader import Loader, Reading
from slipway.containers.data.rows.prepare import Share, prepare
from slipway.containers.data.rows.train_vocabulary import train
from slipway.containers.data.samples.texts import write_sample
from slipway.containers.data.sources.sources import local_source
from slipway.containers.data.tokens.engine import TokenSettings
from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.recipes.bert_pretrain.data import BertBatches, BertData, open_data
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.devices import open_device
from slipway.containers.training.layout import BatchPlan

SHARDS = 4


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_sample(root / "corpus.txt", seed=1, size_bytes=100_000)
    source = local_source(root / "corpus.txt")
    settings = TokenSettings(phase=1, vocabulary=train(source, 800), seed=7, duplicates=1)
    prepare(source, settings, root / "phase1", Share(), shards=SHARDS)
    return root


def opened(root: Path, share: str) -> BertData:
    return open_data(replace(read_contract({}), data=str(root)), decode(watched(share)))


def watched(share: str) -> dict[str, str]:
    return {"held_out_share": share, "evaluate_every": "2", "held_out_rows": "16", "micro_batch": "4"}


def test_at_least_the_share_is_held_out_in_whole_shards_and_the_rest_is_trained_on(root: Path) -> None:
    found = opened(root, "0.3")
    assert found.held_out is not None
    training, held_out = found.training.manifest.shards, found.held_out.manifest.shards
    assert [shard.number for shard in (*training, *held_out)] == list(range(SHARDS))
    assert 0.3 <= found.held_out.rows / (found.training.rows + found.held_out.rows) < 0.8
    with Loader(found.training, Reading(rank=0, world=1, global_batch=1)) as loader:
        assert sum(1 for _ in loader.epoch()) == found.training.rows


def test_every_reader_measures_on_rows_of_its_own_each_time_the_same(root: Path) -> None:
    found, config = opened(root, "0.3"), decode(watched("0.3"))
    device = open_device(read_contract({}), "cpu", "fp32")
    seen = []
    for reader in (0, 1, 0):
        plan = BatchPlan(micro_batch=4, accumulation_steps=1, readers=2)
        batches = BertBatches(plan=plan, reader=reader, seed=3, device=device)
        held_out = found.held_out_batches(batches, config)
        assert held_out is not None
        assert held_out.rows == 16
        with held_out.open() as rows:
            words = [inputs["words"] for inputs in rows]
        seen.append({tuple(row.tolist()) for batch in words if batch is not None for row in batch})
    assert len(seen[0]) == len(seen[1]) == 8
    assert not seen[0] & seen[1]
    assert seen[0] == seen[2]


def test_a_share_for_which_there_are_too_few_shards_is_refused(root: Path, tmp_path: Path) -> None:
    source = local_source(root / "corpus.txt")
    settings = TokenSettings(phase=1, vocabulary=train(source, 800), seed=7, duplicates=1)
    prepare(source, settings, tmp_path / "phase1", Share(), shards=1)
    with pytest.raises(Refusal, match=r"has 1 shard\(s\), too few to hold out 0.1 of its rows; prepare a"):
        opened(tmp_path, "0.1")
