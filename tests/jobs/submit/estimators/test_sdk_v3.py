"""The real SageMaker SDK v3, in its own environment, sends our request."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.words.targets import encode_target
from tests.jobs.submit.estimators.requests import requests
from tests.jobs.submit.estimators.sending import differences
from tests.jobs.words.test_targets import SAGEMAKER_TARGET

ROOT = Path(__file__).resolve().parents[4]
PYTHON = ROOT / ".venv" / "sagemaker-v3" / "bin" / "python"

pytestmark = [
    pytest.mark.apart,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs SageMaker's SDK v3: scripts/set_up_apart"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Send our requests with the SDK in its environment."""
    home = tmp_path_factory.mktemp("home")
    ran = subprocess.run(
        [PYTHON, "-m", "tests.jobs.submit.estimators.sending"],
        input=json.dumps({"target": encode_target(SAGEMAKER_TARGET), "requests": requests()}),
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_the_request_of_the_sdk_is_ours_field_by_field(told: dict[str, Any]) -> None:
    assert [differences(one, other) for one, other in zip(requests(), told["sent"], strict=True)] == [{}, {}]


def test_ctrl_c_says_that_the_job_goes_on_and_how_to_end_it(told: dict[str, Any]) -> None:
    name = requests()[0]["TrainingJobName"]
    assert f"{name} keeps running; end it: slipway cancel {name}" in told["said_at_ctrl_c"]
