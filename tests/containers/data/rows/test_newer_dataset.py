"""What a newer Slipway prepared is not damage: nobody is told to prepare it again over itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from slipway.containers.data.rows.prepare import Share, merge, prepare
from slipway.containers.data.rows.shards import FORMAT, NewerDataset, read_manifest
from slipway.containers.data.sources.sources import local_source
from tests.containers.data.conftest import MakeSettings


@pytest.fixture
def newer(dataset: Path, tmp_path: Path) -> Path:
    """Prepare it as a later release would: another format, with a fact that this one does not know."""
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
    assert f"{newer}/manifest.json has format 2, and this Slipway reads 1" in str(refused.value)
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
