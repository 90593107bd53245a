"""The folder of a planned command is kept as it was, and sent to the cluster where the plan runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.jobs.code.folder import CannotShip, read_folder
from slipway.jobs.code.packing import LostArchive, keep_archive, with_sent_source
from slipway.jobs.words.job import PROJECT_DAYS, Job
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.code.projects import write
from tests.yard.conftest import RunningYard


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return keep_archive(read_folder(write(tmp_path / "mine", {"train.py": ""})))


def planned(archive: Path) -> Job:
    settings = {"source": str(archive), "command": '["python", "train.py"]'}
    return Job(name="mine", recipe="command", nodes=1, settings=settings)


def test_it_is_sent_to_the_bucket_of_the_cluster_and_named_as_it_lies_there(
    yard_shell: RunningYard, target: BatchTarget, archive: Path
) -> None:
    s3 = yard_shell.client("s3")
    s3.create_bucket(Bucket=target.bucket)
    sent = with_sent_source(planned(archive), target, s3)
    assert sent.settings["source"] == f"s3://{target.bucket}/sources/{archive.name}"
    found = s3.get_object(Bucket=target.bucket, Key=f"sources/{archive.name}")["Body"].read()
    assert found == archive.read_bytes()
    assert with_sent_source(sent, target, s3) == sent


def test_one_that_is_gone_is_named_with_what_to_do(
    yard_shell: RunningYard, target: BatchTarget, archive: Path
) -> None:
    archive.unlink()
    with pytest.raises(LostArchive, match="job 'mine': its folder is not kept") as refused:
        with_sent_source(planned(archive), target, yard_shell.client("s3"))
    assert refused.value.hint == "plan again: slipway plan make FILE"


def test_a_home_that_cannot_be_written_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        CannotShip, match=r"is kept in .*/file/slipway/sources, which cannot be made"
    ) as refused:
        keep_archive(read_folder(write(tmp_path / "mine", {"train.py": ""})))
    assert "set XDG_STATE_HOME" in refused.value.hint


def test_what_no_bucket_keeps_any_longer_is_forgotten(tmp_path: Path, archive: Path) -> None:
    long_ago = archive.stat().st_mtime - (PROJECT_DAYS + 1) * 24 * 3600
    os.utime(archive, (long_ago, long_ago))
    other = keep_archive(read_folder(write(tmp_path / "other", {"a.py": ""})))
    assert [path.name for path in archive.parent.iterdir()] == [other.name]
