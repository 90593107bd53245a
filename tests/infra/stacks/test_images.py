"""Images are built in the cloud from the sources of which their tag is a digest, and pushed once."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.patterns.images.image_project import build_spec
from slipway.jobs.words.images.containers import image_names, image_tag, read_lock, unsupported
from tests.infra.synthesis import CLUSTER, as_text, only, synthesize, templates_of

SCRIPT = Path(__file__).parents[3] / "infra" / "components" / "build_image.sh"


def test_the_project_has_the_name_that_the_target_tells() -> None:
    assert only(templates_of().images, "AWS::CodeBuild::Project")["Name"] == "dl1-images"


def test_a_build_ends_is_encrypted_and_writes_to_an_encrypted_log() -> None:
    project = only(templates_of().images, "AWS::CodeBuild::Project")
    assert project["TimeoutInMinutes"] == 120
    assert "EncryptionKey" in project
    logs = project["LogsConfig"]["CloudWatchLogs"]
    assert logs["Status"] == "ENABLED"
    assert "BuildLogs" in str(logs["GroupName"])


def test_a_build_reads_sources_and_pushes_to_one_repository_only() -> None:
    policy = only(templates_of().images, "AWS::IAM::ManagedPolicy")["PolicyDocument"]
    statements = {each["Sid"]: each for each in policy["Statement"]}
    assert as_text(statements["ReadObjects"]["Resource"]) == "<…>/builds/*"
    assert "WriteObjects" not in statements
    assert "ecr:PutImage" in statements["PushImages"]["Action"]
    assert "*" not in str(statements["PushImages"]["Resource"])
    assert "Image" in str(statements["PushImages"]["Resource"])


def test_arm_images_are_built_on_arm() -> None:
    project = only(templates_of(instance_type="hpc7g.16xlarge").images, "AWS::CodeBuild::Project")
    assert project["Environment"]["Type"] == "ARM_CONTAINER"


def test_a_build_runs_the_script_that_is_checked_and_nothing_else() -> None:
    project = only(templates_of().images, "AWS::CodeBuild::Project")
    assert project["Source"]["BuildSpec"] == build_spec()
    (phase,) = json.loads(build_spec())["phases"].values()
    assert phase == {"commands": [SCRIPT.read_text(encoding="utf-8")]}


def test_the_tag_of_a_job_is_the_digest_of_the_sources() -> None:
    template = synthesize(CLUSTER).compute  # computed now, because an edit of containers/ changes the tag
    job = only(template, "AWS::Batch::JobDefinition")["NodeProperties"]["NodeRangeProperties"][0]
    assert as_text(job["Container"]["Image"]) == f"<…>:{image_tag(CONTAINERS, 'gaudi')}"


@pytest.mark.parametrize("image", image_names(CONTAINERS))
def test_an_image_is_built_of_the_versions_that_its_lock_names(image: str) -> None:
    folder = CONTAINERS / "images" / image
    built_of = "".join(
        path.read_text(encoding="utf-8") for path in (folder / "Dockerfile", *sorted(folder.glob("*.txt")))
    )
    lock = read_lock(CONTAINERS, image)
    assert lock is not None
    if (
        base := "images/pytorch/lock.toml"
    ) in built_of:  # the versions in AWS's container, of which its tag names few
        built_of += (CONTAINERS / base).read_text(encoding="utf-8")
    built_of = re.sub(r"py(3)([0-9]{2})", r"py\1.\2", built_of)  # in the form of AWS's tags
    assert [version for version in lock.image.values() if version not in built_of] == []
    assert unsupported("Habana Gaudi HL-205", lock) == ()


class BuildMachine:
    """Make a folder with programs that record how they were called."""

    def __init__(self, folder: Path, *, pushed: bool) -> None:
        self.folder, self.log = folder, folder / "calls"
        self.log.touch()
        (folder / "images" / "gaudi").mkdir(parents=True)
        (folder / "images" / "gaudi" / "Dockerfile").write_text("FROM vendor/base:1\n", encoding="utf-8")
        describe = "exit 0" if pushed else "exit 255"
        self._program("aws", f'case "$2" in describe-images) {describe} ;; esac')
        self._program("docker", "exit 0")

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.log}"\n{body}\n', encoding="utf-8")
        path.chmod(0o755)

    def build(self, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", str(SCRIPT)],
            cwd=self.folder,
            env={"PATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()


ASKED = {"IMAGE": "gaudi", "TAG": "abc", "REPOSITORY": "1.dkr.ecr.us-east-1.amazonaws.com/team/gaudi"}


def test_a_build_pushes_the_image_under_its_tag(tmp_path: Path) -> None:
    machine = BuildMachine(tmp_path, pushed=False)
    assert machine.build(**ASKED).returncode == 0
    name = f"{ASKED['REPOSITORY']}:abc"
    assert f"docker build --pull --file images/gaudi/Dockerfile --tag {name} ." in machine.calls()
    assert f"docker push {name}" in machine.calls()
    assert "aws ecr describe-images --repository-name team/gaudi --image-ids imageTag=abc" in machine.calls()


def test_an_image_of_a_project_is_built_of_its_folder_and_gets_the_code_on_top(tmp_path: Path) -> None:
    machine = BuildMachine(tmp_path, pushed=False)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "Dockerfile").write_text("ARG OF\nFROM $OF\n", encoding="utf-8")
    assert machine.build(**{**ASKED, "IMAGE": "vision"}).returncode == 0
    name = f"{ASKED['REPOSITORY']}:abc"
    own, on_top = (call for call in machine.calls() if call.startswith("docker build"))
    assert own == "docker build --pull --tag own-base project"
    assert on_top == f"docker build --file on_top.Dockerfile --build-arg BASE=own-base --tag {name} ."
    assert f"docker push {name}" in machine.calls()


def test_an_image_that_is_there_already_is_not_built_again(tmp_path: Path) -> None:
    machine = BuildMachine(tmp_path, pushed=True)
    done = machine.build(**ASKED)
    assert done.returncode == 0
    assert "exists already" in done.stdout
    assert not any(call.startswith("docker") for call in machine.calls())


def test_a_build_that_was_not_told_its_image_says_so_and_does_nothing(tmp_path: Path) -> None:
    machine = BuildMachine(tmp_path, pushed=False)
    done = machine.build(TAG="abc", REPOSITORY="r/n")
    assert done.returncode != 0
    assert "IMAGE" in done.stderr
    assert machine.calls() == []
