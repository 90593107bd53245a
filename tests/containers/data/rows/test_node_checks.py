"""The ranks of a node read a shard once to check it, and none trains on one that is damaged."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.containers.data.errors import DataError
from slipway.containers.data.rows import dataset as dataset_module
from slipway.containers.data.rows.dataset import Dataset, NodeChecks
from slipway.containers.data.rows.work import file_digest
from slipway.containers.runtime.contract.launchers import read_contract

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
