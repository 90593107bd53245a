"""A new project works as it is, and none of the user's files is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slipway.infra.declare.declared import declared_clusters, load_machine_images
from slipway.jobs.cli import cli
from slipway.jobs.words.installation import find_project
from tests.yard.conftest import RunningYard

LETTERS = "small letters, digits and single hyphens"


def begun(folder: Path, *arguments: str) -> Path:
    assert cli.run(["init", str(folder), *arguments]) == 0
    return folder


def test_its_cluster_is_declared_and_boots_what_aws_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = begun(tmp_path / "my-training")
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    (cluster,) = declared_clusters(["my-training.max_nodes=3"])
    assert (cluster.name, cluster.kind, cluster.max_nodes) == ("my-training", "batch", 3)
    assert load_machine_images() == ()  # nothing has to be baked first


def test_its_readme_asks_for_a_quota_before_anything_starts_a_machine(tmp_path: Path) -> None:
    """A fresh account may start only 5 vCPUs, with which no job begins."""
    page = (begun(tmp_path / "own") / "README.md").read_text(encoding="utf-8")
    steps = (
        "slipway cluster quota own --request --wait",
        "cdk deploy own",
        "slipway run",
        "slipway report curve",
    )
    places = [page.find(step) for step in steps]
    assert min(places) > 0
    assert places == sorted(places)


def test_two_projects_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one, two = (find_project(begun(tmp_path / each / "same")).name for each in ("a", "b"))
    assert one
    assert one.startswith("same-")
    assert one != two


def test_the_longest_name_of_a_cluster_begins_a_project(tmp_path: Path) -> None:
    project = find_project(begun(tmp_path / "long", "--name", "a" * 64))
    assert project.name
    assert len(project.name) == 64


def test_files_that_are_there_are_kept_and_one_of_ours_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    begun(tmp_path, "--name", "mine")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    before = (tmp_path / "clusters.py").read_text()
    assert cli.run(["init", str(tmp_path), "--name", "other"]) == 1
    assert "already has README.md, cdk.json, clusters.py" in capsys.readouterr().err
    assert (tmp_path / "clusters.py").read_text() == before


def test_what_it_says_to_type_next_works_in_a_folder_with_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my training"
    assert cli.run(["init", str(folder)]) == 1
    assert f"slipway init '{folder}' --name NAME" in capsys.readouterr().err
    begun(folder, "--name", "mine")
    assert f"next: cd '{folder}', read" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["My Project", "9lives", "a-network", "a" * 65, "-rf"])
def test_a_name_that_no_cluster_can_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert cli.run(["init", str(tmp_path / "new"), f"--name={name}"]) == 1
    said = capsys.readouterr().err
    assert "cannot be the name of a cluster" in said
    assert LETTERS in said
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", "/proc/here"]) == 1
    assert "error: /proc/here cannot be written: No such file or directory\n" in capsys.readouterr().err


def in_a_folder(_yard: RunningYard, tmp_path: Path) -> str:
    return str(tmp_path / "saved")


def in_a_bucket(yard: RunningYard, _tmp_path: Path) -> str:
    yard.client("s3").create_bucket(Bucket="saved")
    return "s3://saved/jobs/mine/checkpoints"


@pytest.mark.slow
# The daily run resumes from a folder in README's session.
@pytest.mark.parametrize("place", [pytest.param(in_a_folder, marks=pytest.mark.long), in_a_bucket])
def test_its_training_saves_resumes_and_ends(
    tmp_path: Path, yard_shell: RunningYard, place: Callable[[RunningYard, Path], str]
) -> None:
    pytest.importorskip("torch")
    project, checkpoints = begun(tmp_path / "trained"), place(yard_shell, tmp_path)

    def train(steps: int) -> str:
        environment = {**os.environ, "STEPS": str(steps), "SLIPWAY_CHECKPOINTS": checkpoints}
        command = [sys.executable, "-W", "error", "train.py"]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert "saved step 20" in train(20)
    resumed = train(40)
    assert "resuming from step 20" in resumed
    assert "step 40/40  loss " in resumed
    assert "step 20/40" not in resumed
