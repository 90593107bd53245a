"""A project's own image consists of the right files with our code on top; other files are refused."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.jobs.clusters.images.builds import (
    CHECK,
    ProjectImage,
    find_project_image,
    resolve_image,
    zip_entries,
)
from slipway.jobs.clusters.images.dockerfile import BadImage, refuse_leaving
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import containers_folder
from tests.jobs.code.projects import write
from tests.jobs.words.test_targets import MPI_TARGET, SAGEMAKER_TARGET, TARGET

DOCKERFILE = "FROM python:3.12-slim\nCOPY extra.txt /\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project that has an image."""
    files = {"cdk.json": "{}", "clusters.py": "", "images/vision/Dockerfile": DOCKERFILE}
    folder = write(tmp_path / "mine", {**files, "images/vision/extra.txt": "1", "train.py": ""})
    monkeypatch.chdir(folder)
    return folder


def found(name: str) -> ProjectImage:
    image = find_project_image(name)
    assert image is not None
    return image


def test_the_folder_is_built_by_itself_and_slipways_code_lies_beside_it(project: Path) -> None:
    archive = zipfile.ZipFile(io.BytesIO(zip_entries(found("vision").entries)))
    own = [name for name in archive.namelist() if name.startswith("project/")]
    assert own == ["project/Dockerfile", "project/extra.txt"]
    assert "runtime/launch/launcher.py" in archive.namelist()
    assert archive.read("project/Dockerfile").decode() == DOCKERFILE
    on_top = archive.read("on_top.Dockerfile").decode().splitlines()
    assert on_top[1] == "FROM $BASE"
    assert "ENTRYPOINT []" in on_top, "it would take the command for its arguments"


def test_the_tag_follows_the_files_of_the_image_and_no_others(project: Path) -> None:
    before = found("vision").tag
    write(project, {"train.py": "print(1)\n"})
    assert found("vision").tag == before
    write(project, {"images/vision/extra.txt": "2"})
    assert found("vision").tag != before
    assert before.startswith("own-vision-")


def test_what_starts_a_command_in_the_image_needs_python_alone(tmp_path: Path) -> None:
    shutil.copytree(containers_folder(), tmp_path / "slipway" / "containers")
    done = subprocess.run(
        [sys.executable, "-S", "-c", CHECK],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_name_of_an_image_stands_for_what_build_pushes(project: Path) -> None:
    assert resolve_image("vision", TARGET) == f"{TARGET.repository_uri}:{found('vision').tag}"
    assert resolve_image("registry/vision:2", TARGET) == "registry/vision:2"
    assert resolve_image("vision", MPI_TARGET) == "vision", "it is refused when the job is prepared"


def test_a_folder_that_makes_no_image_is_refused_by_name(project: Path) -> None:
    write(project, {"images/empty/a": "", "images/Loud/Dockerfile": "", "images/gaudi/Dockerfile": ""})
    for name, said in {
        "empty": "images/empty has no Dockerfile",
        "Loud": "images/Loud is no name of an image",
        "gaudi": "images/gaudi has the name of an image of Slipway",
    }.items():
        with pytest.raises(SlipwayError, match=said):
            find_project_image(name)
    (project / "images/vision/link").symlink_to("extra.txt")
    with pytest.raises(SlipwayError, match="images/vision/link is a symbolic link"):
        find_project_image("vision")


@pytest.mark.parametrize(
    ("text", "said"),
    [  # BI-445
        ("FROM ../../etc\n", "images/vision/Dockerfile:1: FROM ../../etc names no image"),
        ("FROM /etc\n", "names no image"),
        ("FROM ./base\n", "names no image"),
        ("FROM registry/../../etc\n", "names no image"),
        ("FROM\n", "names no image"),
        ("FROM a\nCOPY ../secret /\n", "Dockerfile:2: COPY ../secret / leaves the folder"),
        ("FROM a\ncopy x/../../y /\n", "Dockerfile:2: copy x/../../y / leaves the folder"),
        ('FROM a\nADD ["a", "../b", "/"]\n', "Dockerfile:2"),
        ("FROM a\nCOPY --chown=1 \\\n  # why\n  ../b /\n", "Dockerfile:2: COPY --chown=1 ../b /"),
        ("# escape=`\nFROM a\nCOPY `\n ../b /\n", "Dockerfile:3: COPY ../b /"),
        ('FROM a\nCOPY "../b c" /\n', "Dockerfile:2"),
        ("FROM a\nFROM ..\n", "Dockerfile:2: FROM .. names no image"),
        ("", "has no FROM"),
        ("RUN echo\n", "has no FROM"),
        ("\xff", "has no FROM"),
    ],
)
def test_a_dockerfile_that_leaves_its_folder_is_refused_before_anything_is_sent(
    project: Path, text: str, said: str
) -> None:
    write(project, {"images/vision/Dockerfile": text})
    with pytest.raises(SlipwayError) as refused:
        find_project_image("vision")
    assert said in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "ARG BASE=python:3.12\nFROM --platform=linux/amd64 ${BASE} AS built\n",
        "FROM a\nCOPY . /app\nCOPY a..b ..c /\n",
        "FROM a AS b\nFROM a\nCOPY --from=b /x/../y /\n",
        "FROM a\nRUN cd .. && cp ../x /\n# COPY ../x /\n",
        "FROM a\nCOPY <<EOF /script\nCOPY ../x /\nEOF\nRUN true\n",
        "FROM a\nADD https://example.com/a/../b /\n",
        "FROM a\nRUN true \\",
    ],
)
def test_a_dockerfile_that_stays_in_its_folder_is_built(project: Path, text: str) -> None:
    write(project, {"images/vision/Dockerfile": text})
    assert found("vision").tag


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "bytes"])
def test_a_dockerfile_that_nobody_can_read_is_named(project: Path, kind: str) -> None:
    path = project / "images" / "vision" / "Dockerfile"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"FROM \xff\n")
    with pytest.raises(SlipwayError, match="images/vision"):
        find_project_image("vision")


@given(text=st.text(alphabet=st.sampled_from("FROM COPYaD./\\`\n#<-\"'[],\0"), max_size=60))
@settings(max_examples=100)
def test_any_dockerfile_is_taken_or_refused(text: str) -> None:
    with NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        with suppress(BadImage):
            refuse_leaving("images/vision", Path(file.name))


def test_a_name_that_is_no_image_here_is_refused_with_those_that_are(project: Path) -> None:
    with pytest.raises(SlipwayError, match="image visoin is no URI") as refused:
        resolve_image("visoin", TARGET)
    assert refused.value.hint == "did you mean vision?"
    with pytest.raises(SlipwayError, match="'gptj' has no repository for it"):
        resolve_image("vision", SAGEMAKER_TARGET)
    assert find_project_image("cpu") is None
