"""An instance runs only the uploaded code, which a shell starts as AWS's toolkit does."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.on_nodes import unpack
from slipway.jobs.platforms.sagemaker.platform import pack_for
from slipway.jobs.platforms.sagemaker.request import build_request
from slipway.jobs.words.job import Job
from tests.jobs.words.test_targets import SAGEMAKER_TARGET

HOSTS = ("127.0.0.1", "127.0.0.2")
TARGET = replace(
    SAGEMAKER_TARGET,
    instance_type="ml.c6i.16xlarge",
    efa_interfaces=0,
    file_system_id=None,
    file_system_mount=None,
    file_system_path=None,
)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("instance") / "code"
    unpack(gzip.decompress(pack_for(TARGET).packed), folder)
    return folder


def start(code: Path, host: str, root: Path, module: str) -> subprocess.Popen[str]:
    """Start the entry point on one instance, with its container's variables and without Slipway installed."""
    job = Job(name="smoke", recipe="smoke", nodes=len(HOSTS))
    told = build_request(job, TARGET, module=module, code="c" * 64).create["Environment"]
    toolkit = {
        "SM_HOSTS": str(list(HOSTS)).replace("'", '"'),
        "SM_CURRENT_HOST": host,
        "SM_HPS": "{}",
        "MASTER_ADDR": HOSTS[0],
        "MASTER_PORT": "7777",
    }
    own = {"SLIPWAY_ROOT": str(root), "SLIPWAY_LOGS": str(root / "tensorboard")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), **told, **toolkit, **own}
    command = ["/bin/sh", "-c", f"{sys.executable} slipway_start.py --tensor 2"]
    return subprocess.Popen(
        command, cwd=code, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_what_an_instance_refuses_is_what_sagemaker_shows_as_the_reason(code: Path, tmp_path: Path) -> None:
    process = start(code, HOSTS[0], tmp_path, "slipway.containers.recipes.nothing.train")
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 2, said
    reason = (tmp_path / "opt/ml/output/failure").read_text(encoding="utf-8")
    assert "slipway.containers.recipes.nothing.train" in reason
    assert len(reason) <= 1024
