"""Other people's SDKs, unmodified, reach the yard because AWS_ENDPOINT_URL says so."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.end_to_end.conftest import Shell

APPS = Path(__file__).parent / "apps"


def test_boto3_without_any_argument_reaches_the_yard(shell: Shell) -> None:
    ask = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"
    assert "123456789012" in shell.must(sys.executable, "-c", ask)


def test_a_sagemaker_estimator_hears_that_nothing_would_train(shell: Shell, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "estimator.py").write_text("print('training')\n")
    done = shell.run(sys.executable, str(APPS / "estimator.py"), str(source))
    assert done.status != 0
    assert "the yard does not emulate sagemaker:CreateTrainingJob: no SageMaker job runs here" in done.text


def test_real_looking_keys_are_refused_by_the_yard(shell: Shell) -> None:
    theirs = Shell(environment={**shell.environment, "AWS_ACCESS_KEY_ID": "AKIA" + "EXAMPLE" * 2})
    done = theirs.run(sys.executable, "-c", "import boto3; boto3.client('sts').get_caller_identity()")
    assert done.status != 0
    assert "this is the yard" in done.text
