"""Trainings as objects of SageMaker's own SDK: `from slipway.estimators import hugging_face`.

docs/python.md shows each name. No SDK is imported before `hugging_face` is called.
"""

from __future__ import annotations

from slipway.jobs.submit.estimators.hugging_face import hugging_face
from slipway.jobs.submit.estimators.training import Script
from slipway.jobs.words.smp.parameters import SmpV2
from slipway.jobs.words.smp.recipe_settings import StepSize, settings_of_v1, settings_of_v2
from slipway.jobs.words.smp.smp_v1 import SmpV1, to_smp_v1, to_smp_v2

__all__ = [
    "Script",
    "SmpV1",
    "SmpV2",
    "StepSize",
    "hugging_face",
    "settings_of_v1",
    "settings_of_v2",
    "to_smp_v1",
    "to_smp_v2",
]
