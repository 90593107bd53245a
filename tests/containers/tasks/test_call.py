"""A rank that is not allowed to write its result says which permission is missing."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("obstore")

from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE
from slipway.containers.tasks import call
from tests.containers.data.failing_s3 import denying


def test_a_denied_result_names_the_permission_to_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("SLIPWAY_JOB", "root")
    monkeypatch.setattr(call, "read_arguments", lambda url, account: ([4.0], {}))
    monkeypatch.setattr(sys, "path", list(sys.path))
    with denying(monkeypatch, 403, "AccessDenied") as seen:
        code = call.main(["math:sqrt", "s3://texts/sources/0.safetensors"])
    assert len(seen) == 1
    assert code == MISTAKE_EXIT_CODE
    said = capsys.readouterr().err
    assert said.endswith(": access is denied; allow s3:PutObject there to the job's role\n")
