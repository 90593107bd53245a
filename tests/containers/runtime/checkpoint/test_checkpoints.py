"""Checkpoints are kept, found or refused as a training was promised, in this format and in others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint import manifest
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints
from slipway.containers.runtime.checkpoint.folder import CheckpointFolder
from slipway.containers.runtime.checkpoint.manifest import DamagedCheckpoint, OtherFormat
from slipway.containers.runtime.checkpoint.resume import (
    Mode,
    NoCheckpoint,
    NoGoodCheckpoint,
    OtherTraining,
    read_manifest,
)
from slipway.containers.runtime.collective import Collective
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE, Refusal
from tests.containers.runtime.saving import (
    FAILED,
    in_processes,
    is_right,
    newest,
    opened,
    quiet,
    resumed,
    save,
    save_together,
    saved,
    steps,
    training,
    weights,
)


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def test_the_newest_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    saved(tmp_path, 5, 10)
    found = resumed(tmp_path)
    assert found is not None
    assert found.step == 10
    assert is_right(found)


def test_the_last_n_good_ones_are_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3, 4, 5, keep=3)
    assert steps(tmp_path) == ["step-0000000003", "step-0000000004", "step-0000000005"]


def test_a_damaged_one_does_not_count_among_those_kept(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    flip(tmp_path / "step-0000000002" / "rank-00000.safetensors", 500)
    with opened(tmp_path, 2) as checkpoints:
        checkpoints.resume()
        save(checkpoints, 3)
    assert "step-0000000001" in steps(tmp_path)


@pytest.mark.parametrize("keep", [1, 0, -1])
def test_keeping_fewer_than_two_is_refused(tmp_path: Path, keep: int) -> None:
    """BI-073"""
    with pytest.raises(Refusal, match="at least 2"):
        Checkpoints(CheckpointFolder(tmp_path), training(), keep=keep)


@pytest.mark.parametrize("name", ["rank-00000.safetensors", "MANIFEST.json"])
def test_any_flipped_bit_is_found_and_the_older_one_taken(tmp_path: Path, name: str) -> None:
    """F20"""
    saved(tmp_path, 1, 2)
    path = tmp_path / "step-0000000002" / name
    whole = path.read_bytes()
    for offset in range(0, len(whole), max(1, len(whole) // 40)):
        flip(path, offset)
        found = resumed(tmp_path)
        assert found is not None, offset
        assert found.step == 1, offset
        assert is_right(found), offset
        path.write_bytes(whole)


@pytest.mark.parametrize("kept", [0, 1, 8, 200, -1])
def test_a_truncated_file_is_found_and_the_older_one_taken(tmp_path: Path, kept: int) -> None:
    saved(tmp_path, 1, 2)
    path = tmp_path / "step-0000000002" / "rank-00000.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert newest(tmp_path) == 1


def test_every_checkpoint_passed_over_is_named_with_its_reason(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, 3, keep=3)
    flip(tmp_path / "step-0000000003" / "rank-00000.safetensors", 100)
    (tmp_path / "step-0000000002" / "MANIFEST.json").unlink()
    lines: list[str] = []
    with Checkpoints(CheckpointFolder(tmp_path), training(2), say=lines.append) as checkpoints:
        found = checkpoints.resume("required")
    assert found is not None
    assert found.step == 1
    assert any("step-0000000003" in line and "sha256" in line and "rank 0" in line for line in lines)
    assert any("step-0000000002" in line and "no MANIFEST.json" in line for line in lines)


def test_only_bad_checkpoints_are_a_failure_and_never_a_silent_fresh_start(tmp_path: Path) -> None:
    """F23"""
    saved(tmp_path, 1, 2)
    for folder in tmp_path.iterdir():
        flip(folder / "rank-00000.safetensors", -1)
    with opened(tmp_path, 2) as checkpoints:
        with pytest.raises(NoGoodCheckpoint, match=r"step-0000000002.*step-0000000001") as refused:
            checkpoints.resume("auto")
        assert "\n" not in str(refused.value)


def test_a_fresh_start_is_said_aloud_or_refused_as_the_caller_chose(tmp_path: Path) -> None:
    """BI-163"""
    lines: list[str] = []
    with Checkpoints(CheckpointFolder(tmp_path), training(), say=lines.append) as checkpoints:
        assert checkpoints.resume("auto") is None
        assert "starting from step 0" in lines[-1]
        assert checkpoints.resume("never") is None
        with pytest.raises(NoCheckpoint, match="resume=auto"):
            checkpoints.resume("required")
        save(checkpoints, 1)
        with pytest.raises(Refusal, match="resume is never"):
            checkpoints.resume("never")
        with pytest.raises(Refusal, match="auto, required or never"):
            checkpoints.resume("always")  # type: ignore[arg-type]  # a user's typing mistake


def test_a_pointer_to_the_latest_is_ignored(tmp_path: Path) -> None:
    """BI-160: DeepSpeed's `latest` names a step whose shard never came."""
    saved(tmp_path, 1)
    (tmp_path / "latest").write_text("global_step2")
    (tmp_path / "step-0000000002").mkdir()
    assert newest(tmp_path) == 1


def test_another_configuration_or_world_is_refused_with_the_difference(tmp_path: Path) -> None:
    """F21, BI-161"""
    saved(tmp_path, 1)
    other = training(2, config={"hidden": 16, "layers": 2, "vocabulary": 9}, topology={"data": 1})
    with (
        Checkpoints(CheckpointFolder(tmp_path), other, say=quiet) as checkpoints,
        pytest.raises(OtherTraining) as refused,
    ):
        checkpoints.resume("auto", reshard=True)
    for part in ("config.hidden: saved '8', now '16'", "config.vocabulary: saved absent", "topology.data"):
        assert part in str(refused.value)


def test_two_ranks_resume_on_one_only_when_resharding_is_asked(tmp_path: Path) -> None:
    assert save_together(2, tmp_path, 7) == [0, 0]
    with opened(tmp_path, 2) as checkpoints:
        with pytest.raises(OtherTraining, match="world: saved 2, now 1; ask for resharding"):
            checkpoints.resume("auto")
        found = checkpoints.resume("auto", reshard=True)
        assert found is not None
        assert found.manifest.world == 2
        assert is_right(found, 0)
        assert is_right(found, 1)


def test_what_one_rank_cannot_read_no_rank_resumes_from(tmp_path: Path) -> None:
    def resuming(collective: Collective) -> int:
        with opened(tmp_path, 2, collective=collective) as checkpoints:
            found = checkpoints.resume("required")
        return found.step if found is not None and is_right(found, collective.rank) else FAILED

    save_together(3, tmp_path, 1, 2)
    flip(tmp_path / "step-0000000002" / "rank-00002.safetensors", 300)
    assert in_processes(3, resuming) == [1, 1, 1]


def test_saving_a_step_again_keeps_a_good_one_and_replaces_a_bad_one(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    flip(tmp_path / "step-0000000002" / "rank-00000.safetensors", 50)
    saved(tmp_path, 1, 2, attempt=2)
    found = resumed(tmp_path)
    assert found is not None
    assert (found.step, found.manifest.attempt) == (2, 2)
    assert read_manifest(CheckpointFolder(tmp_path), 1).attempt == 1


def test_a_link_in_place_of_a_checkpoint_is_not_followed(tmp_path: Path) -> None:
    saved(tmp_path / "other", 9)
    saved(tmp_path / "own", 1)
    (tmp_path / "own" / "step-0000000009").symlink_to(tmp_path / "other" / "step-0000000009")
    assert newest(tmp_path / "own") == 1


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "rank-00001.safetensors", "rank-00000.pt", 7]
)
def test_a_manifest_cannot_name_a_file_elsewhere(tmp_path: Path, name: object) -> None:
    saved(tmp_path, 1)
    path = tmp_path / "step-0000000001" / "MANIFEST.json"
    record = manifest.decode(path.read_bytes())
    forged = json.loads(manifest.encode(record))
    forged["ranks"][0]["name"] = name
    del forged["sha256"]
    forged["sha256"] = manifest.digest_of(forged)
    with pytest.raises(DamagedCheckpoint, match="as the file of rank 0"):
        manifest.decode(json.dumps(forged).encode())


@pytest.mark.parametrize("names", [("..",), ("a", "../.."), ("/etc",), ("",), ("a\0b",), (".",)])
def test_a_folder_that_climbs_out_of_its_root_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(Refusal, match="use one plain name"):
        disk.folder_within(str(tmp_path), *names)


def test_a_folder_that_leaves_its_root_by_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "job").symlink_to("/etc")
    with pytest.raises(Refusal, match="leads out"):
        disk.folder_within(str(tmp_path / "root"), "job")
    assert disk.folder_within(str(tmp_path / "root"), "bert é") == tmp_path / "root" / "bert é"


@pytest.mark.parametrize("step", [-1, 10**10, True, 1.0, "1"])
def test_a_step_that_is_none_is_refused(tmp_path: Path, step: object) -> None:
    with opened(tmp_path) as checkpoints, pytest.raises(Refusal, match="whole number"):
        checkpoints.save(step, weights(1))  # type: ignore[arg-type]  # hostile on purpose


# A checkpoint of another Slipway is not damaged: training does not skip it, and nothing of it is lost.


def step(folder: Path, number: int) -> Path:
    return folder / f"step-{number:010d}"


def make_newer(folder: Path, **changes: object) -> bytes:
    """Write it as a later release would: with another schema, more facts, and the right digest."""
    path = folder / manifest.NAME
    body = json.loads(path.read_bytes()) | {"schema": manifest.SCHEMA + 1, "sharding": "2-d"} | changes
    del body["sha256"]
    path.write_bytes(json.dumps({**body, "sha256": manifest.digest_of(body)}).encode())
    return path.read_bytes()


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_newer_checkpoint_is_refused_with_both_versions_and_what_to_do(tmp_path: Path, mode: Mode) -> None:
    saved(tmp_path, 1, 2)
    make_newer(step(tmp_path, 2))
    with opened(tmp_path, 2) as checkpoints, pytest.raises(OtherFormat) as refused:
        checkpoints.resume(mode)
    said = str(refused.value)
    assert f"{step(tmp_path, 2)}/MANIFEST.json has schema 3, and this Slipway reads 2" in said
    assert "resume with the Slipway that saved it" in said
    assert "another checkpoint folder" in said
    assert "\n" not in said
    assert refused.value.exit_code == MISTAKE_EXIT_CODE


def test_all_ranks_refuse_a_newer_checkpoint_together(tmp_path: Path) -> None:
    def resuming(collective: Collective) -> int:
        with opened(tmp_path, 2, collective=collective) as checkpoints:
            try:
                checkpoints.resume()
            except OtherFormat:
                return 50
        return FAILED

    assert save_together(3, tmp_path, 1, 2) == [0, 0, 0]
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
    assert newest(tmp_path) == 1


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
        opened(tmp_path, 2) as checkpoints,
        pytest.raises(OtherFormat, match="schema 3, and this Slipway reads 2"),
    ):
        save(checkpoints, 2)
    assert (step(tmp_path, 2) / manifest.NAME).read_bytes() == newer
    assert steps(tmp_path) == ["step-0000000001", "step-0000000002"]


def test_pruning_discards_no_newer_checkpoint(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    newer = make_newer(step(tmp_path, 1))
    saved(tmp_path, 3, 4, 5, attempt=2)
    assert (step(tmp_path, 1) / manifest.NAME).read_bytes() == newer
    assert steps(tmp_path) == [
        "step-0000000001",
        "step-0000000004",
        "step-0000000005",
    ]


def test_a_newer_checkpoint_behind_the_newest_good_one_stops_nobody(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    make_newer(step(tmp_path, 1))
    assert newest(tmp_path) == 2


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
