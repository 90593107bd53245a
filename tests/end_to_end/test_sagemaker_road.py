"""The deployed sagemaker cluster: submitted recipes train by AWS's own toolkit, on two Spot instances."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.containers.data.samples.texts import write_task
from slipway.yard.endpoint import Yard, control
from slipway.yard.machines.settings import CLOCK_VARIABLE
from tests.end_to_end.conftest import Shell, yard_at
from tests.yard.conftest import RunningYard
from tests.yard.services.sagemaker.training_site import require_training

pytest.importorskip("torch", reason="the extra 'training' is not installed")
pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]

NAME, JOB = "sagemaker", "moods"
ON = ("--on", NAME, "--nodes", "2", "--processes-per-node", "2")
CLOCK = "0.02"  # the two minutes of an interruption are 2.4 seconds
TINY = {
    "data": "sst2",
    "tensor": "2",
    "pipeline": "2",
    "length": "48",
    "steps": "60",
    "checkpoint_every": "10",
    "log_every": "10",
}
CHANCE, MARGIN = 0.5, 0.1
ACCURACY = re.compile(r"accuracy[ =:]+([01]\.\d+)")


@pytest.fixture(scope="module")
def yards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Yard]]:
    require_training()
    assembly, running = str(tmp_path_factory.mktemp("assembly")), list[RunningYard]()
    declared = ("-c", f"{NAME}.keep_data=false", "-c", f"{NAME}.market=spot", "--output", assembly)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CLOCK_VARIABLE, CLOCK)
        with yard_at(tmp_path_factory.mktemp("yard"), running.append) as shell:
            # A fresh account may not start this type.
            shell.must(
                "slipway", "cluster", "quota", NAME, "-c", f"{NAME}.market=spot", "--request", "--wait"
            )
            shell.must("cdk", "deploy", NAME, "--require-approval", "never", "--concurrency", "4", *declared)
            yield shell, running[0]
            shell.must("slipway", "cluster", "empty", NAME, "--yes")
            shell.must("cdk", "destroy", f"{NAME}*", "--force", "--app", assembly)


@pytest.fixture(scope="module")
def shell(yards: tuple[Shell, Yard]) -> Shell:
    return yards[0]


@pytest.fixture(scope="module")
def bucket(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the cluster's bucket, with some labelled sentences in it."""
    folder = tmp_path_factory.mktemp("data")
    write_task(folder / "sst2", "sst2")
    found = str(shell.data("slipway", "cluster", "targets", NAME, "--json")["bucket"])
    for path in (path for path in folder.rglob("*") if path.is_file()):
        key = f"datasets/{path.relative_to(folder).as_posix()}"
        shell.client("s3").put_object(Bucket=found, Key=key, Body=path.read_bytes())
    return found


def test_smoke_finds_two_instances_sound(shell: Shell) -> None:
    said = shell.run("slipway", "submit", "smoke", *ON, "--follow")
    assert said.status == 0, said.text
    run = shell.data("slipway", "status", "smoke", "--json")
    assert run["state"] == "succeeded"
    job = shell.client("sagemaker").describe_training_job(TrainingJobName=run["name"])
    assert job["ResourceConfig"]["InstanceCount"] == 2


def test_gptj_resumes_after_an_interruption_and_tells_moods(
    shell: Shell, yards: tuple[Shell, Yard], bucket: str, tmp_path: Path
) -> None:
    words = [word for pair in TINY.items() for word in ("--set", "=".join(pair))]
    shell.must(
        "slipway", "submit", "gptj_finetune", *ON, *words, "--data", f"s3://{bucket}/datasets", "--name", JOB
    )
    shell.follow_until(JOB, "saved step")
    name = str(shell.data("slipway", "status", JOB, "--json")["name"])
    control(yards[1], "POST", "/interrupt-training", {"job": name})
    log = shell.run("slipway", "logs", JOB, "--follow", timeout_s=580).text
    job = shell.client("sagemaker").describe_training_job(TrainingJobName=name)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), log)
    assert "Interrupted" in [entry["Status"] for entry in job["SecondaryStatusTransitions"]]
    assert "SIGTERM received: ranks have" in log, log
    assert "resum" in log, log
    kept = shell.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"jobs/{name}/checkpoints/model/")
    assert any(item["Key"].endswith(".safetensors") for item in kept.get("Contents", [])), kept
    assert float(ACCURACY.findall(log)[-1]) > CHANCE + MARGIN, log
    packed = shell.client("s3").get_object(Bucket=bucket, Key=f"jobs/{name}/output/model.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed["Body"].read())) as archive:
        archive.extractall(tmp_path, filter="data")
    transformers = pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    assert type(transformers.AutoModelForCausalLM.from_pretrained(tmp_path)).__name__ == "GPTJForCausalLM"
