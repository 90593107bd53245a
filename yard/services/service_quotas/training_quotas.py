"""SageMaker's quotas of training jobs that the yard knows by their codes. Another one is one line.

Codes and names are those that a public audit of Service Quotas lists. The large types have none in a fresh
account, as its users report; ml.m5.large has what one user's account printed; times are SageMaker's own.
A quota that is not here holds once `slipway yard grant-quota` has set it by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_JOB = "Longest run time for a training job"
_OF_INSTANCES = re.compile(r"ml\.[\w.-]+ for (spot )?training job usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobQuota:
    name: str
    value: int  # in a fresh account: instances, or seconds


TRAINING_QUOTAS: Mapping[str, TrainingJobQuota] = {
    "L-09B4A649": TrainingJobQuota(name="ml.p4d.24xlarge for training job usage", value=0),
    "L-09D56C4F": TrainingJobQuota(name="ml.p4d.24xlarge for spot training job usage", value=0),
    "L-6BC98A55": TrainingJobQuota(name="ml.g5.48xlarge for training job usage", value=0),
    "L-0DA2E7B0": TrainingJobQuota(name="ml.g6e.48xlarge for training job usage", value=0),
    "L-8497E1A4": TrainingJobQuota(name="ml.g6e.48xlarge for spot training job usage", value=0),
    "L-611FA074": TrainingJobQuota(name="ml.m5.large for training job usage", value=15),
    "L-29688C85": TrainingJobQuota(name="ml.m5.large for spot training job usage", value=10),
    "L-2DD73636": TrainingJobQuota(name="ml.m5.large for training warm pool usage", value=0),
    "L-33A961FD": TrainingJobQuota(name=LONGEST_JOB, value=432_000),
}


def is_of_instances(name: str) -> bool:
    """Return True for the name of a quota that counts a type's instances; it may have no code here."""
    return _OF_INSTANCES.fullmatch(name) is not None


def code_or_name(text: str) -> str:
    """Return the code of a quota of this name, if it has one here."""
    return next((code for code, quota in TRAINING_QUOTAS.items() if quota.name == text), text)
