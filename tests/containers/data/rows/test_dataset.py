"""A dataset that is empty, damaged or newer than this Slipway is refused before a step is taken."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows import dataset as dataset_module
from slipway.containers.data.rows.dataset import Dataset, NodeChecks
from slipway.containers.data.rows.prepare import Share, merge, prepare
from slipway.containers.data.rows.shards import FORMAT, NewerDataset, as_json, read_manifest
from slipway.containers.data.rows.work import file_digest
from slipway.containers.data.sources.sources import local_source
from slipway.containers.runtime.contract.launchers import read_contract
from tests.containers.data.conftest import MakeSettings


# BI-118
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


# Data that a newer Slipway prepared is not damaged: nobody is told to overwrite it.


@pytest.fixture
def newer(dataset: Path, tmp_path: Path) -> Path:
    """Prepare it as a later release would: in another format, with a fact that this one does not know."""
    folder = tmp_path / "newer"
    shutil.copytree(dataset, folder)
    for name in ("plan.json", "manifest.json"):
        content = json.loads((folder / name).read_text())
        content.get("plan", content).update(format=FORMAT + 1, tokenizer="bpe")
        (folder / name).write_text(json.dumps(content))
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".lock" not in path.name)
    return {path: path.read_bytes() for path in files}


def test_a_newer_dataset_is_refused_with_both_formats_and_what_to_do(newer: Path) -> None:
    with pytest.raises(NewerDataset) as refused:
        read_manifest(newer)
    assert f"{newer}/manifest.json has format 2, but this Slipway reads format 1" in str(refused.value)
    assert "use the Slipway that prepared it" in refused.value.hint


def test_preparing_and_merging_leave_a_newer_dataset_as_it_is(
    newer: Path, corpus: Path, make_settings: MakeSettings
) -> None:
    before = contents(newer)
    with pytest.raises(NewerDataset, match=r"plan\.json has format 2"):
        prepare(local_source(corpus), make_settings(), newer, Share(), shards=3)
    with pytest.raises(NewerDataset, match=r"plan\.json has format 2"):
        merge(newer)
    assert contents(newer) == before


# The ranks of a node read a shard once to check it, and none trains on one that is damaged.
TOGETHER = replace(read_contract({}), world=2, local_world=2)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Note the names of files that are read for their digests; temporary files are the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: list[str] = []

    def noted(path: Path) -> str:
        names.append(path.name)
        return file_digest(path)

    monkeypatch.setattr(dataset_module, "file_digest", noted)
    return names


def read_all(folder: Path, attempt: int = 1) -> None:
    """Read a row of each shard, as one rank does."""
    opened = Dataset.open(folder)
    opened.checks = NodeChecks.of(replace(TOGETHER, attempt=attempt), opened.digest)
    try:
        for shard in range(len(opened.manifest.shards)):
            opened.chunk(shard, 0)
    finally:
        opened.close()


def test_only_the_first_rank_of_a_node_reads_a_shard_to_check_it(dataset: Path, checked: list[str]) -> None:
    read_all(dataset)
    once = sorted(checked)
    assert len(set(once)) == len(once) == 3
    read_all(dataset)
    assert sorted(checked) == once


def test_each_attempt_checks_again(dataset: Path, checked: list[str]) -> None:
    read_all(dataset, attempt=1)
    read_all(dataset, attempt=2)
    assert len(checked) == 6


def test_a_damaged_shard_is_refused_by_every_rank(dataset: Path, checked: list[str], tmp_path: Path) -> None:
    folder = shutil.copytree(dataset, tmp_path / "copy")
    path = folder / "shard-00001.hdf5"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(DataError, match=r"shard-00001.hdf5 is not what the manifest lists"):
            read_all(folder)
    assert checked.count("shard-00001.hdf5") == 2
    assert checked.count("shard-00000.hdf5") == 1


def test_what_another_user_could_have_written_is_not_believed(dataset: Path, checked: list[str]) -> None:
    path = NodeChecks.of(TOGETHER, Dataset.open(dataset).digest).path
    assert path is not None
    path.write_bytes(b"1" * 3)
    path.chmod(0o666)
    read_all(dataset)
    assert len(checked) == 3


def test_a_rank_that_is_alone_on_its_node_shares_nothing() -> None:
    assert NodeChecks.of(read_contract({}), "digest").path is None
