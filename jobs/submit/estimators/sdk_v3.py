"""Builds a training as the `ModelTrainer` of SageMaker's SDK v3, which sends the same CreateTrainingJob."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import PrivateAttr
from sagemaker.core import shapes
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import Compute, Networking, SourceCode
from sagemaker.core.utils.code_injection.codec import pascal_to_snake
from sagemaker.train import ModelTrainer
from sagemaker.train.distributed import SMP, Torchrun

from slipway.jobs.cloud import aws
from slipway.jobs.submit.estimators.sdk import CODE_PREFIX, sdk_defaults
from slipway.jobs.submit.estimators.training import SdkTraining, print_log, waiting_for
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.smp.smp_v1 import SmpV1

_CHECKS_ROLE = "SAGEMAKER_VALIDATE_ROLE"


class TargetModelTrainer(ModelTrainer):
    """A trainer that uses the job's own name, which SageMaker accepts once, and prints its log."""

    _training: SdkTraining | None = PrivateAttr(default=None)

    def train(
        self, input_data_config: Any = None, wait: bool = True, logs: bool = True, dry_run: bool = False
    ) -> None:
        """Create the training job; wait for its end and print its log unless told otherwise.

        The SDK itself would print the log only where Python's logging is set up for it and only in boto3's
        default region, and would print nothing that a Spot job logs after an interruption.
        """
        assert self._training, "build_estimator gives it"
        before = self._latest_training_job
        super().train(input_data_config, wait=False, logs=False, dry_run=dry_run)
        if dry_run:
            return
        if (job := self._latest_training_job) is before:
            raise KeyboardInterrupt  # the SDK's train swallows KeyboardInterrupt and returns normally
        if wait:
            with waiting_for(self._training, job.training_job_name):
                if logs:
                    print_log(job.training_job_name, self._training.target)
                job.wait()  # raises the reason if the job failed

    @property
    def job_name(self) -> str | None:
        """Return the job's name on SageMaker; None where each `train` makes a new one."""
        return self._training.job_name if self._training else None

    _first_process: list[str] | None = PrivateAttr(default=None)  # the SDK sets one only with a source

    def _create_training_job_args(self, input_data_config: Any = None, boto3: bool = False) -> dict[str, Any]:
        arguments: dict[str, Any] = super()._create_training_job_args(input_data_config, boto3)
        if self.job_name:
            arguments["TrainingJobName" if boto3 else "training_job_name"] = self.job_name
        if self._first_process:
            algorithm = arguments["AlgorithmSpecification" if boto3 else "algorithm_specification"]
            algorithm.container_entrypoint = self._first_process
        return arguments


def build_estimator(training: SdkTraining) -> TargetModelTrainer:
    """Build the trainer; `.train()` sends it."""
    with _role_unjudged():
        trainer = _build(training, training.create)
    trainer._training = training
    algorithm = training.create["AlgorithmSpecification"]
    definitions = algorithm["MetricDefinitions"]
    trainer._first_process = algorithm.get("ContainerEntrypoint")
    trainer.with_metric_definitions([shapes.MetricDefinition(**_snake(each)) for each in definitions])
    if retries := training.create.get("RetryStrategy"):
        trainer.with_retry_strategy(shapes.RetryStrategy(**_snake(retries)))
    if charts := training.create.get("TensorBoardOutputConfig"):
        trainer.with_tensorboard_output_config(shapes.TensorBoardOutputConfig(**_snake(charts)))
    return trainer


def _build(training: SdkTraining, create: Mapping[str, Any]) -> TargetModelTrainer:
    kept = create.get("CheckpointConfig")
    return TargetModelTrainer(
        sagemaker_session=Session(
            boto_session=aws.session(training.region),
            default_bucket=training.bucket,
            default_bucket_prefix=CODE_PREFIX,
            sagemaker_config=sdk_defaults(),
        ),
        base_job_name=training.name,
        role=create["RoleArn"],
        training_image=create["AlgorithmSpecification"]["TrainingImage"],
        training_input_mode=create["AlgorithmSpecification"]["TrainingInputMode"],
        environment=dict(create.get("Environment", {})),
        compute=_compute(create),
        networking=Networking(
            subnets=create["VpcConfig"]["Subnets"],
            security_group_ids=create["VpcConfig"]["SecurityGroupIds"],
            enable_network_isolation=create["EnableNetworkIsolation"],
            enable_inter_container_traffic_encryption=create["EnableInterContainerTrafficEncryption"],
        ),
        stopping_condition=shapes.StoppingCondition(**_snake(create["StoppingCondition"])),
        output_data_config=shapes.OutputDataConfig(**_snake(create["OutputDataConfig"])),
        input_data_config=[shapes.Channel(**_snake(config)) for config in create.get("InputDataConfig", ())],
        tags=[shapes.Tag(key=tag["Key"], value=tag["Value"]) for tag in create["Tags"]],
        **({"checkpoint_config": shapes.CheckpointConfig(**_snake(kept))} if kept else {}),
        **_program(training),
    )


@contextmanager
def _role_unjudged() -> Iterator[None]:
    """Stop the SDK from refusing a role with few rights: it simulates actions on the resource `*`."""
    before = os.environ.get(_CHECKS_ROLE)
    os.environ[_CHECKS_ROLE] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CHECKS_ROLE]
        else:
            os.environ[_CHECKS_ROLE] = before


def _compute(create: Mapping[str, Any]) -> Compute:
    resources = create["ResourceConfig"]
    given = {
        "keep_alive_period_in_seconds": resources.get("KeepAlivePeriodInSeconds"),
        "volume_kms_key_id": resources.get("VolumeKmsKeyId"),
    }
    return Compute(
        instance_type=resources["InstanceType"],
        instance_count=resources["InstanceCount"],
        volume_size_in_gb=resources["VolumeSizeInGB"],
        enable_managed_spot_training=create["EnableManagedSpotTraining"],
        **{name: value for name, value in given.items() if value is not None},
    )


def _program(training: SdkTraining) -> dict[str, Any]:
    """Return the code and its arguments. AWS's toolkit unpacks a job's code, the SDK's driver a script's."""
    if training.is_ours:
        return {"hyperparameters": dict(training.create["HyperParameters"])}
    if isinstance(training.smp, SmpV1):
        raise SlipwayError(
            "SMP v1 cannot be started by SageMaker's SDK v3",
            hint="pip install 'sagemaker>=2.257,<3', or say it as SMP v2: slipway.estimators.to_smp_v2",
        )
    smp = SMP(**training.smp.parameters()) if training.smp else None
    return {
        "hyperparameters": dict(training.arguments),
        "source_code": SourceCode(source_dir=training.source, entry_script=training.entry_point),
        "distributed": Torchrun(process_count_per_node=training.processes_per_host, smp=smp),
    }


def _snake(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Spell the members of an AWS shape in snake case, as the SDK does: S3OutputPath is s3_output_path."""
    return {
        pascal_to_snake(name): _snake(value) if isinstance(value, Mapping) else value
        for name, value in shape.items()
    }
