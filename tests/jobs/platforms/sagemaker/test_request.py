"""A training job's request tells SageMaker and the container the right things, and wrong jobs are refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.runtime.contract.settings import Settings
from slipway.containers.runtime.launch.assignment import read_node
from slipway.containers.runtime.linux import Machine
from slipway.jobs.platforms.sagemaker.request import STATES, FileSettings, build_request
from slipway.jobs.platforms.sending import refuse_malformed
from slipway.jobs.words.job import DoesNotFit, InvalidJob, Job
from slipway.jobs.words.run import JobState, translate
from slipway.jobs.words.sagemaker import MODEL, TENSORBOARD
from tests.jobs.words.test_targets import SAGEMAKER_TARGET

CODE = "c" * 64
MODULE = "slipway.containers.recipes.gptj_finetune.train"
JOB = Job(name="gptj_sst2", recipe="gptj_finetune", nodes=2, settings={"size": "tiny", "tensor": "2"})
ALONE = replace(JOB, nodes=1)
NO_FILES: dict[str, Any] = {"file_system_id": None, "file_system_mount": None, "file_system_path": None}


def create(job: Job = JOB, inputs: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    target = replace(SAGEMAKER_TARGET, **changes)
    found = build_request(job, target, module=MODULE, code=CODE, files=FileSettings(inputs=inputs)).create
    refuse_malformed("sagemaker", "CreateTrainingJob", found)
    return dict(found)


def test_a_job_trains_in_the_image_that_it_names() -> None:
    own = f"{SAGEMAKER_TARGET.account}.dkr.ecr.{SAGEMAKER_TARGET.region}.amazonaws.com/vision:2"
    found = create(replace(JOB, image=own))
    assert found["AlgorithmSpecification"]["TrainingImage"] == own
    assert create()["AlgorithmSpecification"]["TrainingImage"] == SAGEMAKER_TARGET.image
    assert found["TrainingJobName"] != create()["TrainingJobName"]


def channels(found: dict[str, Any]) -> dict[str, Any]:
    return {each["ChannelName"]: each["DataSource"] for each in found.get("InputDataConfig", ())}


def test_other_code_another_image_and_another_name_are_other_jobs_whose_names_sagemaker_takes() -> None:
    target = SAGEMAKER_TARGET
    requests = [
        build_request(JOB, target, module=MODULE, code=CODE),
        build_request(JOB, target, module=MODULE, code="d" * 64),
        build_request(JOB, replace(target, image=f"{target.image}-2"), module=MODULE, code=CODE),
        build_request(replace(JOB, name="gptj-sst2"), target, module=MODULE, code=CODE),
    ]
    assert len({request.create["TrainingJobName"] for request in requests}) == 4
    name = create(replace(JOB, name="a_" * 25))["TrainingJobName"]
    assert (len(name), "_" in name) == (63, False)


def test_the_instances_are_those_of_the_cluster_and_the_time_is_always_limited() -> None:
    found = create(replace(JOB, timeout_seconds=7200))
    assert found["ResourceConfig"]["InstanceType"] == "ml.p4d.24xlarge"
    assert found["ResourceConfig"]["InstanceCount"] == 2
    assert found["StoppingCondition"]["MaxRuntimeInSeconds"] == 7200
    assert create()["StoppingCondition"]["MaxRuntimeInSeconds"] == SAGEMAKER_TARGET.job_timeout_seconds


def test_spot_may_wait_beyond_the_time_of_the_job() -> None:
    found = create(replace(JOB, timeout_seconds=3600))
    assert found["EnableManagedSpotTraining"] is True
    assert found["StoppingCondition"]["MaxWaitTimeInSeconds"] == 3600 + SAGEMAKER_TARGET.spot_wait_seconds
    assert "MaxWaitTimeInSeconds" not in create(is_spot=False)["StoppingCondition"]
    assert "KeepAlivePeriodInSeconds" not in create()["ResourceConfig"], "no warm pool is declared"
    warm = create(is_spot=False, warm_pool_seconds=900)["ResourceConfig"]
    assert warm["KeepAlivePeriodInSeconds"] == 900


def test_a_volume_and_the_model_are_encrypted_by_the_clusters_key_where_it_has_one() -> None:
    volume = create()["ResourceConfig"]
    assert (volume["VolumeSizeInGB"], volume["VolumeKmsKeyId"]) == (500, SAGEMAKER_TARGET.volume_key)
    assert "VolumeKmsKeyId" not in create(volume_key=None)["ResourceConfig"]
    assert create()["OutputDataConfig"] == {"S3OutputPath": "s3://slipway-gptj-data/jobs"}
    assert create(output_key="arn:aws:kms:us-east-1:123456789012:key/k")["OutputDataConfig"]["KmsKeyId"]


def test_jobs_run_in_the_clusters_network_and_are_counted_as_its_own() -> None:
    found = create()
    assert found["VpcConfig"] == {
        "Subnets": [SAGEMAKER_TARGET.subnet],
        "SecurityGroupIds": [SAGEMAKER_TARGET.security_group],
    }
    tags = {tag["Key"]: tag["Value"] for tag in found["Tags"]}
    assert tags == {"slipway:cluster": "gptj", "slipway:target": "gptj"}


def test_a_job_asks_nothing_of_sagemakers_debugger_which_is_closed_to_new_customers() -> None:
    """It is since 30 July 2026 (SageMaker AI Developer Guide, "Debugger availability change")."""
    debugger = ("DebugHookConfig", "DebugRuleConfigurations", "ProfilerConfig", "ProfilerRuleConfigurations")
    assert not create().keys() & set(debugger)


@pytest.mark.parametrize(("asked", "more"), [(None, 2), (1, None), (10, 9)])
def test_sagemaker_repeats_what_failed_by_its_own_fault(asked: int | None, more: int | None) -> None:
    found = create(replace(JOB, attempts=asked)).get("RetryStrategy")
    assert found == (None if more is None else {"MaximumRetryAttempts": more})


def test_the_request_lies_beside_the_jobs_files_as_it_was_sent() -> None:
    request = build_request(JOB, SAGEMAKER_TARGET, module=MODULE, code=CODE)
    assert request.put["Key"] == f"jobs/{request.name}/request.json"
    assert json.loads(request.put["Body"]) == request.create
    told = request.create["HyperParameters"]
    assert json.loads(told["size"]) == "tiny"
    assert json.loads(told["sagemaker_submit_directory"]) == f"s3://slipway-gptj-data/code/{CODE}.tar.gz"


def test_an_instance_reads_its_place_and_its_files_from_what_was_sent() -> None:
    """Our variables and those that SageMaker's toolkit adds on the second instance make one contract."""
    found = create(**NO_FILES)
    toolkit = {"SM_CURRENT_HOST": "algo-2", "SM_HOSTS": '["algo-1", "algo-2"]', "MASTER_PORT": "7777"}
    contract = read_contract({**found["Environment"], **toolkit}, Machine())
    name = found["TrainingJobName"]
    assert (contract.job, contract.run, contract.node, contract.nodes) == (name, name, 1, 2)
    assert contract.main_address == "algo-1"
    assert contract.checkpoints == f"s3://slipway-gptj-data/jobs/{name}/checkpoints"
    assert contract.logs == TENSORBOARD
    assert contract.archive == MODEL
    assert contract.deadline is not None


def test_a_launcher_starts_a_process_for_each_gpu_and_has_most_of_the_two_minutes_to_save() -> None:
    toolkit = {"SM_CURRENT_HOST": "algo-1", "SM_HOSTS": '["algo-1", "algo-2"]'}
    settings: Settings = read_node({**create()["Environment"], **toolkit}, MODULE, []).settings
    assert (settings.processes, settings.accelerator, settings.efa_interfaces) == (8, "nvidia", 4)
    assert 60 < settings.grace_seconds < 120
    assert settings.market == "on-demand", "a training container is not told of interruptions by EC2"


def test_one_instance_saves_to_the_folder_that_sagemaker_copies_to_the_bucket() -> None:
    found = create(ALONE, **NO_FILES)
    kept = f"s3://slipway-gptj-data/jobs/{found['TrainingJobName']}/checkpoints"
    assert found["CheckpointConfig"] == {"S3Uri": kept, "LocalPath": "/opt/ml/checkpoints"}
    assert found["Environment"]["SLIPWAY_CHECKPOINTS"] == "/opt/ml/checkpoints"


def test_several_instances_never_save_to_folders_that_they_do_not_share() -> None:
    for changes, begins in ((NO_FILES, "s3://"), ({}, "/opt/ml/input/data/shared/checkpoints/")):
        found = create(**changes)
        assert "CheckpointConfig" not in found
        assert found["Environment"]["SLIPWAY_CHECKPOINTS"].startswith(begins)


def test_a_command_that_saves_to_folders_alone_has_sagemaker_copy_them_where_it_asks_for_that() -> None:
    settings = {"source": f"/tmp/{'d' * 64}.tar.gz", "command": '["torchrun", "train.py"]'}
    own = replace(JOB, recipe="command", settings=settings, checkpoints="/opt/ml/checkpoints")
    found = create(own, **NO_FILES)
    kept = f"s3://slipway-gptj-data/jobs/{found['TrainingJobName']}/checkpoints"
    assert found["CheckpointConfig"] == {"S3Uri": kept, "LocalPath": "/opt/ml/checkpoints"}
    assert found["Environment"]["SLIPWAY_CHECKPOINTS"] == "/opt/ml/checkpoints"


def test_a_job_resumes_from_the_place_that_it_is_given() -> None:
    place = "s3://slipway-gptj-data/jobs/gptj-1/checkpoints"
    alone, both = (create(replace(job, checkpoints=place), **NO_FILES) for job in (ALONE, JOB))
    assert alone["CheckpointConfig"]["S3Uri"] == place
    assert both["Environment"]["SLIPWAY_CHECKPOINTS"] == place


def test_the_file_system_is_a_channel_that_ranks_may_write_to() -> None:
    assert channels(create()) == {
        "shared": {
            "FileSystemDataSource": {
                "FileSystemId": "fs-0123456789abcdef0",
                "FileSystemType": "FSxLustre",
                "FileSystemAccessMode": "rw",
                "DirectoryPath": "/abcdefgh",
            }
        }
    }


def test_data_in_a_bucket_becomes_a_channel_of_a_whole_folder() -> None:
    found = create(replace(JOB, data="s3://slipway-gptj-data/datasets/sst2"), **NO_FILES)
    assert channels(found)["data"]["S3DataSource"]["S3Uri"] == "s3://slipway-gptj-data/datasets/sst2/"
    assert found["Environment"]["SLIPWAY_DATA"] == "/opt/ml/input/data/data"


def test_settings_that_name_inputs_in_a_bucket_are_read_from_channels_below_one_data_folder() -> None:
    settings = {"model": "s3://m/gptj", "data": "s3://d/train.jsonl", "size": "s3://not-an-input"}
    found = create(replace(JOB, settings=settings), inputs=("data", "model"), **NO_FILES)
    assert set(channels(found)) == {"data", "model"}
    assert found["Environment"]["SLIPWAY_DATA"] == "/opt/ml/input/data"
    read = {key: json.loads(found["HyperParameters"][key]) for key in settings}
    assert read == {"model": "model", "data": "data/train.jsonl", "size": "s3://not-an-input"}


def test_beside_data_that_is_given_settings_are_left_for_the_recipe_to_read() -> None:
    job = replace(JOB, settings={"model": "s3://m/gptj"}, data="s3://slipway-gptj-data/datasets")
    found = create(job, inputs=("model",), **NO_FILES)
    assert set(channels(found)) == {"data"}
    assert json.loads(found["HyperParameters"]["model"]) == "s3://m/gptj"


def test_a_job_that_should_wait_for_another_is_refused_with_what_to_do() -> None:
    with pytest.raises(DoesNotFit, match="waits for no other") as refused:
        create(replace(JOB, depends_on=("prepare",)))
    assert "--follow" in (refused.value.hint or "")


def test_more_instances_than_the_cluster_may_have_are_refused() -> None:
    with pytest.raises(DoesNotFit, match="asks for 3 nodes but cluster 'gptj' has 2"):
        create(replace(JOB, nodes=3))


def test_a_long_place_is_refused_before_sagemaker_refuses_it() -> None:
    with pytest.raises(InvalidJob, match="SageMaker takes 512"):
        create(replace(JOB, data="/" + "d" * 600))


@pytest.fixture(scope="module")
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"), "sagemaker")


def test_the_first_process_of_a_job_is_one_that_sagemaker_takes(model: ServiceModel) -> None:
    shape, given = model.shape_for("TrainingContainerEntrypointString"), create()["AlgorithmSpecification"]
    assert max(map(len, given["ContainerEntrypoint"])) <= shape.metadata["max"]
    assert all(re.fullmatch(shape.metadata["pattern"], item) for item in given["ContainerEntrypoint"])


def test_every_word_of_sagemaker_has_a_state(model: ServiceModel) -> None:
    unknown = [word for word in model.shape_for("SecondaryStatus").metadata["enum"] if word not in STATES]
    assert unknown == []
    assert translate(STATES, "Teleporting") is JobState.UNKNOWN
