"""Builds a training as the `HuggingFace` estimator of SageMaker's SDK v2, which sends the same
CreateTrainingJob.

AWS ends version 2; it is the last that can start SMP v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagemaker.debugger import TensorBoardOutputConfig
from sagemaker.huggingface import HuggingFace
from sagemaker.inputs import FileSystemInput, TrainingInput
from sagemaker.session import Session

from slipway.jobs.cloud import aws
from slipway.jobs.submit.estimators.sdk import CODE_PREFIX, LOG_LEVEL, sdk_defaults
from slipway.jobs.submit.estimators.training import SdkTraining, waiting_for
from slipway.jobs.words.smp.parameters import SmpV2
from slipway.jobs.words.smp.smp_v1 import PARAMETERS, SmpV1, distribution

_PYTHON = "py3"  # the SDK demands it, and does not read it where an image is given


class TargetHuggingFace(HuggingFace):
    """An estimator whose `fit` uses the job's own name and channels, unless others are given."""

    training: SdkTraining | None = None
    channels: Mapping[str, Any] | None = None

    def fit(
        self,
        inputs: Any = None,
        wait: bool = True,
        logs: str = "All",
        job_name: str | None = None,
        experiment_config: Any = None,
    ) -> None:
        """Create the training job; SageMaker refuses a name that was used before."""
        assert self.training, "build_estimator gives it"
        channels, before = inputs or self.channels, self.latest_training_job
        super().fit(channels, False, logs, job_name or self.job_name, experiment_config)
        if self.latest_training_job is before:
            raise KeyboardInterrupt  # the SDK's fit swallows KeyboardInterrupt and returns normally
        if wait:
            with waiting_for(self.training, self.latest_training_job.name):
                self.latest_training_job.wait(logs=logs)

    @property
    def job_name(self) -> str | None:
        """Return the job's name on SageMaker; None where each `fit` makes a new one."""
        return self.training.job_name if self.training else None


def build_estimator(training: SdkTraining) -> TargetHuggingFace:
    """Build the estimator; `.fit()` sends it."""
    session = Session(
        boto_session=aws.session(training.region),
        default_bucket=training.bucket,
        sagemaker_config=sdk_defaults(),
    )
    estimator = TargetHuggingFace(
        entry_point=training.entry_point,
        source_dir=training.source,
        code_location=f"s3://{training.bucket}/{CODE_PREFIX}",
        py_version=_PYTHON,
        base_job_name=training.name,
        sagemaker_session=session,
        container_log_level=LOG_LEVEL,
        enable_sagemaker_metrics=None,
        debugger_hook_config=False,
        disable_profiler=True,
        **_of_request(training.create),
        **_launch(training),
    )
    estimator.training = training
    estimator.channels = {
        config["ChannelName"]: _channel(config) for config in training.create.get("InputDataConfig", ())
    } or None
    return estimator


def _of_request(create: Mapping[str, Any]) -> dict[str, Any]:
    algorithm, resources = create["AlgorithmSpecification"], create["ResourceConfig"]
    limits, kept = create["StoppingCondition"], create.get("CheckpointConfig", {})
    given = {
        "image_uri": algorithm["TrainingImage"],
        "input_mode": algorithm["TrainingInputMode"],
        "metric_definitions": algorithm["MetricDefinitions"],
        "container_entry_point": algorithm.get("ContainerEntrypoint"),
        "role": create["RoleArn"],
        "output_path": create["OutputDataConfig"]["S3OutputPath"],
        "output_kms_key": create["OutputDataConfig"].get("KmsKeyId"),
        "instance_type": resources["InstanceType"],
        "instance_count": resources["InstanceCount"],
        "volume_size": resources["VolumeSizeInGB"],
        "volume_kms_key": resources.get("VolumeKmsKeyId"),
        "keep_alive_period_in_seconds": resources.get("KeepAlivePeriodInSeconds"),
        "max_run": limits["MaxRuntimeInSeconds"],
        "max_wait": limits.get("MaxWaitTimeInSeconds"),
        "use_spot_instances": create["EnableManagedSpotTraining"],
        "subnets": create["VpcConfig"]["Subnets"],
        "security_group_ids": create["VpcConfig"]["SecurityGroupIds"],
        "enable_network_isolation": create["EnableNetworkIsolation"],
        "encrypt_inter_container_traffic": create["EnableInterContainerTrafficEncryption"],
        "checkpoint_s3_uri": kept.get("S3Uri"),
        "checkpoint_local_path": kept.get("LocalPath"),
        "environment": create.get("Environment"),
        "tags": create["Tags"],
        "max_retry_attempts": create.get("RetryStrategy", {}).get("MaximumRetryAttempts"),
    }
    if charts := create.get("TensorBoardOutputConfig"):
        given["tensorboard_output_config"] = TensorBoardOutputConfig(
            charts["S3OutputPath"], container_local_output_path=charts["LocalPath"]
        )
    return given


def _launch(training: SdkTraining) -> dict[str, Any]:
    """Return the program's arguments, and how SMP starts the program."""
    if isinstance(training.smp, SmpV1):
        return {
            "hyperparameters": dict(training.arguments),
            "distribution": distribution(training.smp, training.processes_per_host),
        }
    if isinstance(training.smp, SmpV2):
        # Of SMP and torchrun, HuggingFace would send torchrun alone, and SMP would train with its defaults.
        return {
            "hyperparameters": {**training.arguments, PARAMETERS: training.smp.parameters()},
            "distribution": {"torch_distributed": {"enabled": True}},
        }
    return {"hyperparameters": dict(training.arguments)}


def _channel(config: Mapping[str, Any]) -> TrainingInput | FileSystemInput:
    source = config["DataSource"]
    if shared := source.get("FileSystemDataSource"):
        return FileSystemInput(
            file_system_id=shared["FileSystemId"],
            file_system_type=shared["FileSystemType"],
            directory_path=shared["DirectoryPath"],
            file_system_access_mode=shared["FileSystemAccessMode"],
        )
    return TrainingInput(
        s3_data=source["S3DataSource"]["S3Uri"],
        s3_data_type=source["S3DataSource"]["S3DataType"],
        distribution=source["S3DataSource"]["S3DataDistributionType"],
        input_mode=config.get("InputMode"),
    )
