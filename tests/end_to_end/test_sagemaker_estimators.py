"""Estimators of both SageMaker SDKs send the same request for GPT-J, and train the same model."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.data.samples.texts import write_task
from tests.end_to_end.conftest import ROOT, Shell
from tests.end_to_end.training_cluster import (
    BY_SDK,
    NAME,
    deployed_cluster,
    request_of_submit,
    request_received,
)
from tests.jobs.submit.estimators.sending import differences
from tests.jobs.submit.estimators.test_sdk_v3 import PYTHON as WITH_V3
from tests.yard.services.sagemaker.training_site import require_training

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytestmark = [
    pytest.mark.apart,
    pytest.mark.cdk,
    pytest.mark.slow,
    pytest.mark.skipif(not WITH_V3.exists(), reason="needs SageMaker's SDK v3: scripts/set_up_apart"),
]

TINY = {
    "data": "sst2",
    "tensor": "2",
    "pipeline": "2",
    "length": "48",
    "steps": "4",
    "checkpoint_every": "4",
    "log_every": "2",
}
V2, V3 = sys.executable, str(WITH_V3)
SAID_OTHERWISE: Mapping[str, Mapping[str, object]] = {
    V2: {"ProfilerConfig.DisableProfiler": (None, True)},
    V3: {},
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    require_training()
    with deployed_cluster(tmp_path_factory.mktemp("cluster"), nodes=2) as shell:
        yield shell


@pytest.fixture(scope="module")
def notebook(deployed: Shell) -> Shell:
    """A shell that names its region only in AWS_REGION, which boto3 does not read."""
    told = {key: value for key, value in deployed.environment.items() if key != "AWS_DEFAULT_REGION"}
    return replace(deployed, environment={**told, "PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def data(deployed: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Upload some labelled sentences to the cluster's bucket; return their address."""
    folder = tmp_path_factory.mktemp("data")
    write_task(folder / "sst2", "sst2")
    bucket = str(deployed.data("slipway", "cluster", "targets", NAME, "--json")["bucket"])
    for path in (path for path in folder.rglob("*") if path.is_file()):
        key = f"datasets/{path.relative_to(folder).as_posix()}"
        deployed.client("s3").put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    return f"s3://{bucket}/datasets"


@pytest.mark.parametrize("python", [V2, V3], ids=["v2", "v3"])
def test_gptj_trains_by_the_request_of_submit_prints_its_log_and_leaves_a_model(
    python: str, notebook: Shell, data: str, tmp_path: Path
) -> None:
    name = f"moods-{'v2' if python == V2 else 'v3'}"
    job = {"name": name, "recipe": "gptj_finetune", "nodes": 2, "processes_per_node": 2}
    said = notebook.must(python, BY_SDK, "job", json.dumps({**job, "settings": TINY, "data": data}))
    run = notebook.data("slipway", "status", name, "--json")
    assert run["state"] == "succeeded", said
    ours = request_of_submit(notebook, run["name"])
    assert differences(ours, request_received(notebook, run["name"])) == SAID_OTHERWISE[python]
    assert "[node 1]" in said
    assert "step 4" in said
    assert type(load(model_of(notebook, run["name"], tmp_path))).__name__ == "GPTJForCausalLM"


def test_train_of_v3_shows_the_lines_of_a_script_that_fails_and_raises_the_reason(
    notebook: Shell, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('the loss is not a number')\n", encoding="utf-8")
    script = {"name": "wrong", "entry_point": "train.py", "source_dir": str(tmp_path)}
    done = notebook.run(V3, BY_SDK, "script", json.dumps(script))
    assert done.status == 1
    assert "ValueError: the loss is not a number" in done.text
    assert "FailedStatusError" in done.text
    assert "exit code: 1" in done.text.replace(os.linesep, " ")


def model_of(shell: Shell, name: str, folder: Path) -> Path:
    """Unpack what a job left."""
    job = shell.client("sagemaker").describe_training_job(TrainingJobName=name)
    bucket, _, key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    packed = shell.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def load(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    return transformers.AutoModelForCausalLM.from_pretrained(folder)
