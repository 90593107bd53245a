"""SageMaker's SDK v3, the real one, in an environment of its own: its request is ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.jobs.estimators.requests import requests
from tests.jobs.estimators.sending import differences

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv" / "sagemaker-v3" / "bin" / "python"

pytestmark = [
    pytest.mark.apart,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs SageMaker's SDK v3: scripts/set_up_apart"),
]


def test_the_request_of_the_sdk_is_ours_field_by_field(tmp_path: Path) -> None:
    ours = requests()
    ran = subprocess.run(
        [PYTHON, "-m", "tests.jobs.estimators.sending"],
        input=json.dumps(ours),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    assert ran.returncode == 0, ran.stderr
    sent = json.loads(ran.stdout.splitlines()[-1])
    assert [differences(one, other) for one, other in zip(ours, sent, strict=True)] == [{}, {}]
