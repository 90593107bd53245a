"""A training job is refused or warned of before it costs anything, and deciding calls no service."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.sagemaker import platform
from slipway.jobs.platforms.sagemaker.platform import MissingTrainingImage, Refused, WrongBucket
from slipway.jobs.words.targets import encode_target
from tests.jobs.deployed import deploy_sagemaker_target
from tests.jobs.platforms.sagemaker.conftest import ACCOUNT_QUOTA, Sdk, refusal
from tests.jobs.platforms.sagemaker.training_jobs import (
    JOB,
    TARGET,
    pack_once,
    prepared,
)
from tests.yard.conftest import RunningYard

__all__ = ["pack_once"]


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (
            "ValidationException",
            "Could not assume role arn:aws:iam::123456789012:role/x. Please ensure that the role exists",
            "the role must exist and trust sagemaker.amazonaws.com",
        ),
        ("ResourceLimitExceeded", ACCOUNT_QUOTA, "slipway cluster quota gptj --request"),
        (
            "ValidationException",
            'No S3 objects found under S3 URL "s3://b/x"',
            "slipway cluster upload FILE --on gptj",
        ),
    ],
)
def test_what_sagemaker_refuses_is_said_with_what_to_do(sdk: Sdk, code: str, message: str, hint: str) -> None:
    sdk.refuses = refusal(code, message)
    with pytest.raises(Refused) as refused:
        platform.send(prepared(), None)
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")
    sdk.refuses = refusal("ValidationException", "the moon is in the wrong house")
    with pytest.raises(type(sdk.refuses), match="the moon"):
        platform.send(prepared(), None)


def test_data_in_another_region_is_refused_before_a_machine_is_asked_for(sdk: Sdk) -> None:
    sdk.regions = {"far": "eu-west-1", "nowhere": "none"}
    for data, said in (
        ("s3://far/x", "bucket far lies in eu-west-1"),
        ("s3://nowhere/x", "there is no bucket"),
    ):
        with pytest.raises(WrongBucket, match=said):
            platform.make_ready(prepared(replace(JOB, data=data)), lambda _: None)
    assert not sdk.jobs


def test_an_image_that_the_registry_lacks_is_refused(sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    platform.refuse_unready(prepared())
    sdk.images = [TARGET.image.rpartition(":")[2]]
    with pytest.raises(MissingTrainingImage, match="has no image 763104351884"):
        platform.refuse_unready(prepared())


def test_instances_that_share_no_files_and_reach_no_package_are_warned_of(sdk: Sdk) -> None:
    assert any("share no files" in warning for warning in prepared().warnings)
    assert not any("share no files" in warning for warning in prepared(replace(JOB, nodes=1)).warnings)
    assert not any("share no files" in warning for warning in prepared(has_internet=True).warnings)


def test_deciding_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        pytest.fail("a dry run asked for a client")

    for name in ("client", "sender", "reader"):
        monkeypatch.setattr(aws, name, asked)
    assert prepared().request.create["ResourceConfig"]["InstanceCount"] == 2


def test_a_dry_run_loads_what_decides_and_not_what_submits_or_explains(yard_shell: RunningYard) -> None:
    target = deploy_sagemaker_target(yard_shell)
    words = ["submit", "smoke", "--on", target.name, "--nodes", "1", "--dry-run"]
    program = (
        f"import sys; from slipway.jobs.cli.cli import run; assert run({words!r}) == 0; "
        "print(list(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    needless = ("platforms.journal", "submit.find", "sagemaker.explain", "boto3", "s3transfer")
    assert [name for name in needless if f"{name}'" in ended.stderr.splitlines()[-1]] == []


def test_deciding_needs_no_sdk_of_sagemaker_and_no_torch() -> None:
    program = f"""
import sys
from slipway.jobs.words.job import Job
from slipway.jobs.words.targets import decode_target
from slipway.jobs.platforms.sagemaker import platform
from slipway.jobs.words.recipes import find_recipe
target = decode_target({encode_target(TARGET)!r}, parameter="it")
platform.prepare(Job(name="smoke", recipe="smoke", nodes=2), find_recipe("smoke"), target, ())
print([name for name in ("sagemaker", "torch", "boto3", "numpy") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
