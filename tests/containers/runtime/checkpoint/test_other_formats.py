"""What another Slipway saved is not damage: training refuses to pass it over, and nothing of it is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, OtherFormat
from slipway.containers.runtime.checkpoint.resume import Mode, read_manifest
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE
from tests.containers.runtime.saving import FAILED, in_processes, quiet, resumed, save, saved, training


def step(folder: Path, number: int) -> Path:
    return folder / f"step-{number:010d}"


def make_newer(folder: Path, **changes: object) -> bytes:
    """Write it as a later release would: another schema, more facts, and its right digest."""
    path = folder / manifest.NAME
    body = json.loads(path.read_bytes()) | {"schema": manifest.SCHEMA + 1, "sharding": "2-d"} | changes
    del body["sha256"]
    path.write_bytes(json.dumps({**body, "sha256": manifest.digest_of(body)}).encode())
    return path.read_bytes()


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_newer_checkpoint_is_refused_with_both_versions_and_what_to_do(tmp_path: Path, mode: Mode) -> None:
    saved(tmp_path, 1, 2)
    make_newer(step(tmp_path, 2))
    with (
        Checkpoints(CheckpointFolder(tmp_path), training(2), say=quiet) as checkpoints,
        pytest.raises(OtherFormat) as refused,
    ):
        checkpoints.resume(mode)
    said = str(refused.value)
    assert f"{step(tmp_path, 2)}/MANIFEST.json has schema 3, and this Slipway reads 2" in said
    assert "resume with the Slipway that saved it" in said
    assert "another checkpoint folder" in said
    assert "\n" not in said
    assert refused.value.exit_code == MISTAKE_EXIT_CODE


def test_all_ranks_refuse_a_newer_checkpoint_together(tmp_path: Path) -> None:
    def saving(collective: Collective) -> int:
        with Checkpoints(
            CheckpointFolder(tmp_path), training(), collective=collective, say=quiet
        ) as checkpoints:
            save(checkpoints, 1, collective.rank)
            save(checkpoints, 2, collective.rank)
        return 0

    def resuming(collective: Collective) -> int:
        with Checkpoints(
            CheckpointFolder(tmp_path), training(2), collective=collective, say=quiet
        ) as checkpoints:
            try:
                checkpoints.resume()
            except OtherFormat:
                return 50
        return FAILED

    assert in_processes(3, saving) == [0, 0, 0]
    make_newer(step(tmp_path, 2))
    assert in_processes(3, resuming) == [50, 50, 50]


def test_a_newer_format_with_a_digest_of_its_own_is_no_damage(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    path = step(tmp_path, 1) / manifest.NAME
    path.write_text(json.dumps({"schema": 3, "blake3": "aa"}))
    with pytest.raises(OtherFormat, match="schema 3"):
        resumed(tmp_path)


def test_a_schema_that_one_flipped_bit_made_newer_is_damage(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    path = step(tmp_path, 2) / manifest.NAME
    path.write_bytes(path.read_bytes().replace(b'"schema": 2', b'"schema": 3'))
    found = resumed(tmp_path)
    assert found is not None
    assert found.step == 1


@pytest.mark.parametrize("schema", [0, -1, "2", 2.0, True, None])
def test_a_schema_that_no_slipway_writes_is_damage(tmp_path: Path, schema: object) -> None:
    saved(tmp_path, 1)
    make_newer(step(tmp_path, 1), schema=schema)
    with pytest.raises(DamagedCheckpoint):
        read_manifest(CheckpointFolder(tmp_path), 1)


def test_a_save_that_reaches_the_step_of_a_newer_checkpoint_leaves_it_as_it_is(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    newer = make_newer(step(tmp_path, 2))
    with (
        Checkpoints(CheckpointFolder(tmp_path), training(2), say=quiet) as checkpoints,
        pytest.raises(OtherFormat, match="schema 3, and this Slipway reads 2"),
    ):
        save(checkpoints, 2)
    assert (step(tmp_path, 2) / manifest.NAME).read_bytes() == newer
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000001", "step-0000000002"]


def test_pruning_discards_no_newer_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    newer = make_newer(step(tmp_path, 1))
    saved(tmp_path, 3, 4, 5, attempt=2)
    assert (step(tmp_path, 1) / manifest.NAME).read_bytes() == newer
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-0000000001",
        "step-0000000004",
        "step-0000000005",
    ]


def test_a_newer_checkpoint_behind_the_newest_good_one_stops_nobody(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    make_newer(step(tmp_path, 1))
    found = resumed(tmp_path)
    assert found is not None
    assert found.step == 2


def test_a_checkpoint_of_the_first_format_is_refused_by_name_and_kept(tmp_path: Path) -> None:
    """Its flat pieces had no place in a tensor of several dimensions."""
    folder = step(tmp_path, 7)
    folder.mkdir(parents=True)
    body = {"schema": 1, "step": 7, "world": 1, "ranks": [{"name": "rank-00000.safetensors", "bytes": 0}]}
    (folder / manifest.NAME).write_text(json.dumps({**body, "sha256": manifest.digest_of(body)}))
    with pytest.raises(OtherFormat, match=r"has schema 1, and this Slipway reads 2; .* an older one"):
        resumed(tmp_path)
    saved(tmp_path, 8, 9, 10, attempt=2)
    assert (folder / manifest.NAME).exists()
