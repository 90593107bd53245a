"""A training as an SDK's object needs it: the CreateTrainingJob that `slipway submit` sends, and its code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.jobs.words.smp.hyper_parameters import Smp
from slipway.jobs.words.targets import SageMakerTarget

# Those that the toolkit reads; each SDK writes its own from its arguments.
_OF_TOOLKIT = (
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_region",
    "sagemaker_job_name",
    "sagemaker_container_log_level",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkTraining:
    """Hold one CreateTrainingJob, decided; an SDK's module says it in the SDK's arguments."""

    create: Mapping[str, Any]
    target: SageMakerTarget
    entry_point: str
    source: str  # a folder of this machine, or the URL of an archive
    is_ours: bool  # its name is the job's, which may be sent once; else the SDK names each run
    smp: Smp | None = None
    processes_per_host: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the program, before they are JSON

    @property
    def name(self) -> str:
        return str(self.create["TrainingJobName"])

    @property
    def job_name(self) -> str | None:
        """Return the name that the job has on SageMaker; None where the SDK makes one for each run."""
        return self.name if self.is_ours else None

    @property
    def region(self) -> str:
        return self.target.region

    @property
    def bucket(self) -> str:
        return self.target.bucket


def of_request(create: Mapping[str, Any], target: SageMakerTarget) -> SdkTraining:
    """Take apart a request whose code lies in the bucket already."""
    read = {name: json.loads(value) for name, value in create["HyperParameters"].items()}
    return SdkTraining(
        create=create,
        target=target,
        entry_point=read["sagemaker_program"],
        source=read["sagemaker_submit_directory"],
        is_ours=True,
        arguments={name: value for name, value in read.items() if name not in _OF_TOOLKIT},
    )
