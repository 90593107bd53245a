"""BI-118: a dataset without rows, or with a shard without bytes, is refused before a step is taken."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.shards import as_json, read_manifest


def test_a_dataset_of_no_shards_is_empty(dataset: Path, tmp_path: Path) -> None:
    none = replace(read_manifest(dataset), shards=())
    (tmp_path / "manifest.json").write_text(json.dumps(as_json(none)))
    with pytest.raises(DataError, match="is empty"):
        Dataset.open(tmp_path)


def test_a_shard_of_no_bytes_is_named(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(dataset, folder)
    (folder / "shard-00001.hdf5").write_bytes(b"")
    with pytest.raises(DataError, match=r"shard-00001.hdf5 has 0 bytes, and the manifest lists \d+"):
        Dataset.open(folder)


def test_a_folder_that_nothing_was_prepared_in_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"manifest\.json"):
        Dataset.open(tmp_path)
