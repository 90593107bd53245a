"""Other people's SDKs, unmodified, reach the yard because AWS_ENDPOINT_URL says so."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.end_to_end.conftest import Shell
from tests.yard.services.sagemaker.training_site import require_training

APPS = Path(__file__).parent / "apps"


def test_boto3_without_any_argument_reaches_the_yard(shell: Shell) -> None:
    ask = "import boto3; print(boto3.client('sts').get_caller_identity()['Account'])"
    assert "123456789012" in shell.must(sys.executable, "-c", ask)


def test_a_sagemaker_estimator_trains_in_the_yard(shell: Shell, tmp_path: Path) -> None:
    require_training()
    source = tmp_path / "source"
    source.mkdir()
    (source / "estimator.py").write_text("import sys\nprint(f'training with {sys.argv[1:]}')\n")
    said = shell.must(sys.executable, str(APPS / "estimator.py"), str(source))
    assert "training with ['--epochs', '1']" in said
    assert "Training job completed" in said
    assert "model: s3://slipway-estimator/" in said


def test_real_looking_keys_are_refused_by_the_yard(shell: Shell) -> None:
    theirs = Shell(environment={**shell.environment, "AWS_ACCESS_KEY_ID": "AKIA" + "EXAMPLE" * 2})
    done = theirs.run(sys.executable, "-c", "import boto3; boto3.client('sts').get_caller_identity()")
    assert done.status != 0
    assert "this is the yard" in done.text
