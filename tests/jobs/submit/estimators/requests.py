"""Requests of `slipway submit` to SageMaker, which together have every field that ours ever have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slipway.jobs.platforms.sagemaker.request import FileSettings, build_request
from slipway.jobs.words.job import Job
from tests.jobs.words.test_targets import SAGEMAKER_TARGET

_KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
_MODULE = "slipway.containers.recipes.smoke.train"
_SETTINGS = {"size": "tiny", "rate": "3e-4", "data": "s3://bucket/sst2"}

# One instance that SageMaker may take back, with keys, a channel and checkpoints.
ON_SPOT = replace(
    SAGEMAKER_TARGET,
    is_spot=True,
    volume_key=_KEY,
    output_key=_KEY,
    file_system_id=None,
    file_system_mount=None,
    file_system_path=None,
    warm_pool_seconds=0,
)
# Several instances that stay warm and share files.
SHARING = replace(
    SAGEMAKER_TARGET,
    is_spot=False,
    file_system_id="fs-0123456789abcdef0",
    file_system_mount="/opt/ml/input/data/shared",
    file_system_path="/abcdefgh",
    warm_pool_seconds=600,
)


def requests() -> list[dict[str, Any]]:
    jobs = (
        (Job(name="bert", recipe="smoke", nodes=1, settings=_SETTINGS), ON_SPOT),
        (Job(name="bert_large", recipe="smoke", nodes=2, attempts=1), SHARING),
    )
    files = FileSettings(inputs=("data",))
    made = (build_request(*each, module=_MODULE, code="a" * 64, files=files) for each in jobs)
    return [dict(request.create) for request in made]
