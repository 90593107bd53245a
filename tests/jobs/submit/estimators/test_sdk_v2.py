"""The real SageMaker SDK v2 sends our request, with our hyperparameters of SMP."""

from __future__ import annotations

import json
import re
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.jobs.submit.estimators.sdk import load_sdk
from slipway.jobs.submit.estimators.training import Script, SdkTraining, of_request, of_script
from slipway.jobs.words.smp.parameters import SmpV2
from slipway.jobs.words.smp.smp_v1 import SmpV1, distribution
from tests.jobs.submit.estimators.requests import requests
from tests.jobs.submit.estimators.sending import caught, differences, said_at_ctrl_c, sent_by_installed_sdk
from tests.jobs.words.test_targets import SAGEMAKER_TARGET
from tests.packages import require

require("sagemaker", reason="needs SageMaker's SDK: scripts/set_up.py sagemaker")
pytestmark = pytest.mark.filterwarnings("ignore")  # the SDK's own

IMAGE = "658645717510.dkr.ecr.us-east-1.amazonaws.com/smdistributed-modelparallel:2.4.1-gpu-py311-cu121"
ARTICLE = SmpV1(ddp=True, tensor_parallel_degree=8, shard_optimizer_state=True, fp16=True)
PIPELINE = SmpV1(
    ddp=True,
    pipeline_parallel_degree=2,
    microbatches=8,
    active_microbatches=8,
    pipeline="simple",
    optimize="speed",
    placement_strategy="spread",
    offload_activations=True,
)
MANUAL = SmpV1(ddp=True, pipeline_parallel_degree=2, auto_partition=False, default_partition=1)
SHARDED = SmpV1(ddp=True, sharded_data_parallel_degree=8, bf16=True)

# Ours, the SDK's, and why it does not matter.
SAID_OTHERWISE = {
    # It leaves out False values, which are SageMaker's defaults.
    "EnableManagedSpotTraining": (False, None),
    "EnableNetworkIsolation": (False, None),
    "EnableInterContainerTrafficEncryption": (False, None),
    # It also says that there is no profiler.
    "ProfilerConfig.DisableProfiler": (None, True),
}


@pytest.fixture(scope="module")
def sdk() -> SimpleNamespace:
    """The SDK's own classes; they are heavy to import, so all tests share the process."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("SAGEMAKER_SUPPRESS_V2_WARNING", "1")
        from sagemaker.fw_utils import validate_mp_config
        from sagemaker.huggingface import HuggingFace
        from sagemaker.modules.distributed import SMP
        from sagemaker.pytorch import PyTorch

        load_sdk(2)
    return SimpleNamespace(HuggingFace=HuggingFace, PyTorch=PyTorch, SMP=SMP, validate=validate_mp_config)


@pytest.fixture(autouse=True)
def as_in_the_yard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an address where nothing listens, so that uncaught calls fail; the SDK's telemetry is off."""
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("create", requests(), ids=lambda create: create["TrainingJobName"])
def test_the_request_of_the_sdk_is_ours_field_by_field(sdk: SimpleNamespace, create: dict[str, Any]) -> None:
    sent = sent_by_installed_sdk(of_request(create, SAGEMAKER_TARGET))
    found = differences(create, sent)
    assert {where: pair for where, pair in found.items() if SAID_OTHERWISE.get(where) != pair} == {}


def test_ctrl_c_says_that_the_job_goes_on_and_how_to_end_it(sdk: SimpleNamespace) -> None:
    training = of_request(requests()[0], SAGEMAKER_TARGET)
    said = f"{training.name} keeps running; end it: slipway cancel {training.name}"
    assert said in said_at_ctrl_c(training)


def test_ctrl_c_names_the_command_for_a_job_that_the_sdk_named(sdk: SimpleNamespace) -> None:
    assert re.search(
        r"gptj-[0-9-]+ keeps running; end it: aws sagemaker stop-training-job --region us-east-1 "
        r"--training-job-name gptj-",
        said_at_ctrl_c(script_training(ARTICLE)),
    )


@pytest.mark.parametrize("smp", [ARTICLE, PIPELINE, MANUAL, SHARDED, SmpV1()])
def test_the_sdk_takes_smp_v1_and_sends_its_parameters(sdk: SimpleNamespace, smp: SmpV1) -> None:
    sdk.validate(smp.parameters())
    for kind in (sdk.HuggingFace, sdk.PyTorch):
        built = estimator(kind, distribution(smp, 8)).hyperparameters()
        assert json.loads(built["mp_parameters"]) == smp.parameters()


@pytest.mark.parametrize(
    "smp", [SmpV2(), SmpV2(hybrid_shard_degree=4, tensor_parallel_degree=2, random_seed=7)]
)
def test_the_sdk_takes_smp_v2_and_sends_its_parameters(sdk: SimpleNamespace, smp: SmpV2) -> None:
    built = estimator(sdk.PyTorch, distribution(smp, 8)).hyperparameters()
    # The SDK sends nothing for an empty one, which is the same.
    assert json.loads(built.get("mp_parameters", "{}")) == smp.parameters()


def test_smp_v2_has_the_parameters_that_the_sdk_knows(sdk: SimpleNamespace) -> None:
    assert set(sdk.SMP.model_fields) == set(SmpV2.__dataclass_fields__)


def test_a_script_sends_smp_v1_by_mpi(sdk: SimpleNamespace) -> None:
    sent = sent_for_script(ARTICLE)["HyperParameters"]
    assert json.loads(sent["mp_parameters"]) == ARTICLE.parameters()
    assert (sent["sagemaker_mpi_enabled"], sent["sagemaker_mpi_num_of_processes_per_host"]) == ("true", "8")


def test_a_script_sends_smp_v2_which_the_sdks_own_hugging_face_forgets(sdk: SimpleNamespace) -> None:
    smp = SmpV2(tensor_parallel_degree=8)
    forgets = estimator(sdk.HuggingFace, distribution(smp, 8)).hyperparameters()
    assert "mp_parameters" not in forgets
    sent = sent_for_script(smp)["HyperParameters"]
    assert json.loads(sent["mp_parameters"]) == {"tensor_parallel_degree": 8}
    assert sent["sagemaker_torch_distributed_enabled"] == "true"


def test_a_script_has_the_clusters_role_network_and_places(sdk: SimpleNamespace) -> None:
    target, sent = SAGEMAKER_TARGET, sent_for_script(ARTICLE)
    assert sent["RoleArn"] == target.execution_role
    assert sent["VpcConfig"] == {"Subnets": [target.subnet], "SecurityGroupIds": [target.security_group]}
    assert sent["CheckpointConfig"]["S3Uri"] == f"s3://{target.bucket}/jobs/gptj/checkpoints"
    assert sent["StoppingCondition"]["MaxRuntimeInSeconds"] == target.job_timeout_seconds
    assert sent["AlgorithmSpecification"]["MetricDefinitions"]
    assert sent["TrainingJobName"].startswith("gptj-")
    assert sent["InputDataConfig"][0]["ChannelName"] == "train"


def sent_for_script(smp: SmpV1 | SmpV2) -> dict[str, Any]:
    built = load_sdk(2).build_estimator(script_training(smp))
    return caught(lambda: built.fit(wait=False))


def script_training(smp: SmpV1 | SmpV2) -> SdkTraining:
    script = Script(
        name="gptj",
        entry_point="train.py",
        source_dir="s3://bucket/code/sourcedir.tar.gz",
        hyperparameters={"epochs": 1},
        channels={"train": "s3://bucket/sst2/"},
        image=IMAGE,
        smp=smp,
    )
    return of_script(script, SAGEMAKER_TARGET)


def estimator(kind: Any, given: dict[str, Any]) -> Any:
    """The SDK's estimator as its own documents make it."""
    from sagemaker.session import Session

    from slipway.jobs.cloud import aws

    return kind(
        entry_point="train.py",
        source_dir="s3://bucket/code/sourcedir.tar.gz",
        role="arn:aws:iam::123456789012:role/trains",
        image_uri=IMAGE,
        py_version="py311",
        instance_type="ml.p4d.24xlarge",
        instance_count=1,
        distribution=given,
        sagemaker_session=Session(boto_session=aws.session("us-east-1"), default_bucket="bucket"),
    )
