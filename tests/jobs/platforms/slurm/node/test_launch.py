"""If ranks run in a container, srun gets pyxis's options, with addresses in Enroot's form."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.platforms.on_nodes import RankPython
from slipway.jobs.platforms.slurm.node.allocation import Allocation
from slipway.jobs.platforms.slurm.node.launch import (
    LaunchAttempt,
    enroot_address,
    launch_command,
    node_environment,
    step_options,
)
from slipway.jobs.platforms.slurm.node.setting import SlurmNodeFacts, SlurmNodePaths
from tests.jobs.platforms.slurm.conftest import words

ECR = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
IMAGE = f"{ECR}/pytorch:2.13-cu133-amzn2023"
GPUS = SlurmNodeFacts(instance_type="p5.48xlarge", file_system_mount="/shared", container=IMAGE)


def attempt(root: Path, facts: SlurmNodeFacts = GPUS, *given: str) -> LaunchAttempt:
    (root / "shared").mkdir(exist_ok=True)
    return LaunchAttempt(
        where=SlurmNodePaths(root=root),
        facts=facts,
        words=words(*given),
        allocation=Allocation(
            job="7", nodes=2, hosts=("a", "b"), restarts=0, array_index=None, array_size=None, seconds=None
        ),
        number=1,
        python=RankPython(program="/opt/slipway/venv/bin/python", version="", variables={}),
        module="m",
        has_steps=True,
        scratch=root,
    )


@pytest.mark.parametrize(
    ("image", "address"),
    [
        (IMAGE, f"AWS@{ECR}#pytorch:2.13-cu133-amzn2023"),
        (f"{ECR}/mine/own@sha256:ab", f"AWS@{ECR}#mine/own:sha256:ab"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io#nvidia/pytorch:25.01-py3"),
        ("/fsx/own.sqsh", "/fsx/own.sqsh"),
    ],
)
def test_an_image_is_named_as_enroot_names_it(image: str, address: str) -> None:
    """NVIDIA/enroot v3.5.0, doc/cmd/import.md: docker://[USER@][REGISTRY#]IMAGE[:TAG]."""
    assert enroot_address(image) == address


def test_a_step_on_gpus_asks_for_them_and_for_the_clusters_container(tmp_path: Path) -> None:
    found = step_options(attempt(tmp_path))
    assert found[:2] == ["--gres=gpu:8", f"--container-image=AWS@{ECR}#pytorch:2.13-cu133-amzn2023"]
    assert "--container-mounts=/shared:/shared" in found
    assert launch_command(attempt(tmp_path))[0] == "python", "the container's"
    own = step_options(attempt(tmp_path, GPUS, "--image", "nvcr.io/a/b:c"))
    assert "--container-image=nvcr.io#a/b:c" in own


def test_the_code_of_the_job_counts_before_what_the_image_says(tmp_path: Path) -> None:
    found = attempt(tmp_path, GPUS, "--code", "/shared/code")
    assert "--container-env=PYTHONPATH" in step_options(found)
    assert node_environment(found, {})["PYTHONPATH"] == "/shared/code"
    assert node_environment(attempt(tmp_path), {})["PYTHONPATH"] == "/opt/slipway/node", "no code of its own"


def test_where_processors_stand_in_and_on_a_bake_ranks_run_on_the_node_itself(tmp_path: Path) -> None:
    assert step_options(attempt(tmp_path, SlurmNodeFacts(instance_type="trn1.32xlarge"))) == []
    (tmp_path / "etc" / "slipway").mkdir(parents=True)
    (tmp_path / "etc" / "slipway" / "stand-in").touch()
    assert step_options(attempt(tmp_path)) == ["--gres=gpu:8"]
    assert launch_command(attempt(tmp_path))[0] == "/opt/slipway/venv/bin/python"
