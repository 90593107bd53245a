"""Makes jobs for the tests of SageMaker, and its answers about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pytest

from slipway.jobs.platforms.sagemaker import platform
from slipway.jobs.platforms.sagemaker import platform as code_module
from slipway.jobs.platforms.sagemaker.explain import explain
from slipway.jobs.platforms.sagemaker.platform import SageMakerPrepared, pack_for
from slipway.jobs.platforms.sagemaker.runs import refresh
from slipway.jobs.words.job import Job
from slipway.jobs.words.recipes import find_recipe
from tests.jobs.platforms.sagemaker.conftest import Sdk
from tests.jobs.words.test_targets import SAGEMAKER_TARGET

TARGET = replace(SAGEMAKER_TARGET, file_system_id=None, file_system_mount=None, file_system_path=None)
JOB = Job(name="smoke", recipe="smoke", nodes=2)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

packed_once = lru_cache(pack_for)


@pytest.fixture(autouse=True)
def pack_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack once: packing all code takes a tenth of a second, and no test changes it."""
    monkeypatch.setattr(code_module, "pack_for", packed_once)


def prepared(job: Job = JOB, **changes: Any) -> SageMakerPrepared:
    return platform.prepare(job, find_recipe(job.recipe), replace(TARGET, **changes), ())


def submitted(sdk: Sdk, **described: Any) -> str:
    """Submit a job, and let SageMaker describe it with these values."""
    sent = prepared()
    platform.make_ready(sent, lambda _: None)
    name = platform.send(sent, None)
    sdk.jobs[name] |= {"CreationTime": NOON, **described}
    return name


def ran(seconds: int, **more: Any) -> dict[str, Any]:
    ends = NOON + timedelta(seconds=seconds)
    return {"TrainingStartTime": NOON, "TrainingEndTime": ends, "BillableTimeInSeconds": seconds, **more}


def failed(reason: str, status: str = "Failed") -> dict[str, Any]:
    return ran(60, TrainingJobStatus="Failed", SecondaryStatus=status, FailureReason=reason)


def why(sdk: Sdk, name: str) -> str:
    found = refresh(name, TARGET)
    assert found is not None
    told = explain(found)
    return f"{told.sentence} | {told.fix}"
