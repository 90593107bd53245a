"""Each epoch has every row once, shared equally by any number of ranks, also after a kill."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.loader import Cursor, EpochOrder, Loader, Reading
from slipway.containers.data.rows.shards import as_json, read_manifest
from slipway.containers.data.rows.work import file_digest
from tests.containers.data.rows.test_prepare import KEYS

GLOBAL_BATCH = 24
Ids = Counter[bytes]


def batches(
    folder: Path, world: int, steps: int | None, cursor: Cursor | None = None
) -> tuple[list[list[bytes]], Cursor]:
    """List what all ranks saw in each step, rank after rank, to the end of the epoch or of `steps`."""
    seen: list[list[bytes]] = []
    last = cursor
    for rank in range(world):
        reading = Reading(rank=rank, world=world, global_batch=GLOBAL_BATCH, seed=3)
        with Loader(Dataset.open(folder), reading, cursor) as loader:
            for step, batch in enumerate(loader.epoch()):
                if step == steps:
                    break
                rows = [
                    b"".join(row.tobytes() for row in columns)
                    for columns in zip(*batch.arrays.values(), strict=True)
                ]
                assert len(rows) == GLOBAL_BATCH // world
                seen.extend([[]] if step == len(seen) else [])
                seen[step] += rows
                last = batch.cursor
    assert last is not None
    return seen, last


@pytest.fixture(scope="module")
def uninterrupted(dataset: Path) -> list[list[bytes]]:
    return batches(dataset, 1, None)[0]


def all_rows(dataset: Path) -> Ids:
    rows: Ids = Counter()
    for shard in read_manifest(dataset).shards:
        with h5py.File(dataset / shard.name) as file:
            rows.update(
                b"".join(row.tobytes() for row in columns)
                for columns in zip(*(file[key][:] for key in KEYS), strict=True)
            )
    return rows


def test_an_epoch_holds_every_row_once_but_for_the_last_broken_batch(
    dataset: Path, uninterrupted: list[list[bytes]]
) -> None:
    rows = all_rows(dataset)
    seen = Counter(row for step in uninterrupted for row in step)
    assert not seen - rows
    assert (rows - seen).total() == rows.total() % GLOBAL_BATCH


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), before=st.sampled_from([1, 2, 3, 4, 8]), after=st.sampled_from([1, 2, 3, 4, 8]))
def test_a_killed_and_resumed_epoch_equals_an_uninterrupted_one(
    dataset: Path, uninterrupted: list[list[bytes]], data: st.DataObject, before: int, after: int
) -> None:
    """Step by step the same rows in the same order, whoever had read ahead when it was killed."""
    kill_step = data.draw(st.integers(1, len(uninterrupted) - 1))
    first, cursor = batches(dataset, before, kill_step)
    kept = Cursor(**json.loads(json.dumps(asdict(cursor))))  # as a checkpoint keeps it
    rest, end = batches(dataset, after, None, kept)
    assert first + rest == uninterrupted
    assert (end.epoch, end.rows) == (1, 0)


def test_each_epoch_is_shuffled_anew_and_again_the_same_way(
    dataset: Path, uninterrupted: list[list[bytes]]
) -> None:
    cursor = Cursor(dataset=Dataset.open(dataset).digest, seed=3, epoch=1)
    second, _ = batches(dataset, 1, None, cursor)
    assert second != uninterrupted
    assert batches(dataset, 2, None, cursor)[0] == second


def test_the_loader_goes_on_into_the_next_epoch(dataset: Path) -> None:
    with Loader(Dataset.open(dataset), Reading(rank=0, world=1, global_batch=1000)) as loader:
        epochs = [
            batch.cursor.epoch for batch, _ in zip(loader, range(2 * loader.batches_per_epoch), strict=False)
        ]
    assert epochs[-1] == 2


@settings(max_examples=60)
@given(shards=st.lists(st.integers(1, 50), min_size=1, max_size=6), chunk=st.integers(1, 9), data=st.data())
def test_an_order_visits_every_row_once_in_whatever_stretches(
    shards: list[int], chunk: int, data: st.DataObject
) -> None:
    order = EpochOrder(shards, chunk, 1, 2)
    total = sum(shards)
    cuts = sorted({0, total, *data.draw(st.lists(st.integers(0, total), max_size=5))})
    seen = [
        (part.shard, part.begin + int(row))
        for begin, end in pairwise(cuts)
        for part in order.stretches(begin, end)
        for row in part.rows
    ]
    assert sorted(seen) == [(shard, row) for shard, rows in enumerate(shards) for row in range(rows)]
    assert seen == [
        (part.shard, part.begin + int(row)) for part in order.stretches(0, total) for row in part.rows
    ]


def test_the_rows_of_a_chunk_come_in_another_order_each_epoch() -> None:
    orders = [next(EpochOrder([20], 20, 1, epoch).stretches(0, 20)).rows.tolist() for epoch in (0, 1)]
    assert orders[0] != orders[1] != sorted(orders[1])


def test_ranks_without_data_are_refused(dataset: Path) -> None:
    rows = read_manifest(dataset).rows
    with pytest.raises(DataError, match=rf"has {rows} rows, fewer than one global batch of {rows + 1}"):
        Loader(Dataset.open(dataset), Reading(rank=0, world=1, global_batch=rows + 1))
    with pytest.raises(DataError, match="a global batch of 16 rows cannot be shared by 3 ranks"):
        Reading(rank=0, world=3, global_batch=16)
    with pytest.raises(DataError, match="rank 3 of 3"):
        Reading(rank=3, world=3, global_batch=3)


def test_more_ranks_than_shards_all_have_data(dataset: Path) -> None:
    """Three shards, eight ranks: rows are shared, not files."""
    seen, _ = batches(dataset, 8, 2)
    assert [len(step) for step in seen] == [GLOBAL_BATCH] * 2


def test_another_dataset_or_seed_is_no_place_to_resume(dataset: Path) -> None:
    cursor = Cursor(dataset=Dataset.open(dataset).digest, seed=3)
    reading = Reading(rank=0, world=1, global_batch=8, seed=3)
    with pytest.raises(DataError, match="the checkpoint was trained on dataset aaaaaaaaaaaa"):
        Loader(Dataset.open(dataset), reading, replace(cursor, dataset="a" * 64))
    with pytest.raises(DataError, match="shuffled with seed 4, not 3"):
        Loader(Dataset.open(dataset), reading, replace(cursor, seed=4))


def damage(dataset: Path, folder: Path) -> Path:
    shutil.copytree(dataset, folder)
    return folder / "shard-00001.hdf5"


def admit(folder: Path) -> None:
    """Let the manifest list the shards as they now are: what is left to notice is in the rows."""
    manifest = read_manifest(folder)
    shards = tuple(
        replace(shard, bytes=(folder / shard.name).stat().st_size, sha256=file_digest(folder / shard.name))
        for shard in manifest.shards
    )
    changed = replace(manifest, shards=shards)
    (folder / "manifest.json").write_text(json.dumps(as_json(changed)))


def whole_epoch(folder: Path) -> None:
    with Loader(Dataset.open(folder), Reading(rank=0, world=1, global_batch=64)) as loader:
        for _ in loader.epoch():
            pass


def test_a_truncated_or_missing_shard_is_named_before_training(dataset: Path, tmp_path: Path) -> None:
    shard = damage(dataset, tmp_path / "d")
    size = shard.stat().st_size
    with shard.open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(
        DataError, match=rf"shard-00001.hdf5 has {size // 2} bytes, and the manifest lists {size}"
    ):
        Dataset.open(tmp_path / "d")
    shard.unlink()
    with pytest.raises(DataError, match=r"shard-00001.hdf5 is missing; prepare the dataset again"):
        Dataset.open(tmp_path / "d")


def test_a_shard_that_changed_is_named_when_it_is_read(dataset: Path, tmp_path: Path) -> None:
    shard = damage(dataset, tmp_path / "d")
    content = bytearray(shard.read_bytes())
    content[-100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(
        DataError, match=r"shard-00001.hdf5 is not what the manifest lists: its digest differs"
    ):
        whole_epoch(tmp_path / "d")


def test_a_foreign_shard_is_named(dataset: Path, tmp_path: Path) -> None:
    shard = damage(dataset, tmp_path / "d")
    with h5py.File(shard, "w") as file:
        file["input_ids"] = np.zeros((3, 7), np.int32)
    admit(tmp_path / "d")
    with pytest.raises(
        DataError, match=r"shard-00001.hdf5 is a foreign shard: its input_ids is .*shape \(3, 7\)"
    ):
        whole_epoch(tmp_path / "d")
    shard.write_bytes(b"no HDF5 at all")
    admit(tmp_path / "d")
    with pytest.raises(DataError, match=r"shard-00001.hdf5 is no HDF5 file"):
        whole_epoch(tmp_path / "d")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("input_ids", 10**6, "a token outside the vocabulary"),
        ("input_ids", -1, "a token outside the vocabulary"),
        ("masked_lm_ids", 10**6, "a label outside the vocabulary"),
        ("masked_lm_positions", 128, "a masked position outside its row"),
        ("input_mask", 2, "a mask that is not ones and then zeros"),
        ("segment_ids", 3, "a segment other than 0 and 1"),
        ("next_sentence_labels", 2, "a next-sentence label other than 0 and 1"),
    ],
)
def test_a_bad_record_is_told_by_shard_and_row(
    dataset: Path, tmp_path: Path, key: str, value: int, told: str
) -> None:
    shard = damage(dataset, tmp_path / "d")
    with h5py.File(shard, "r+") as file:
        file[key][300, ...] = value
    admit(tmp_path / "d")
    with pytest.raises(DataError, match=f"shard-00001.hdf5: row 300 has {told}"):
        whole_epoch(tmp_path / "d")


def test_a_closed_loader_leaves_no_thread(dataset: Path) -> None:
    import threading

    with Loader(Dataset.open(dataset), Reading(rank=0, world=1, global_batch=8)) as loader:
        next(iter(loader))
    assert not [thread for thread in threading.enumerate() if thread.name == "loader"]
