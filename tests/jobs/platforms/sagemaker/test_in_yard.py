"""A recipe runs from `submit` to its log on two instances of the yard, by AWS's own toolkit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.sagemaker import platform
from slipway.jobs.submit.find import find_run
from slipway.jobs.submit.logs import Wanted, follow_lines
from slipway.jobs.submit.submission import submit
from slipway.jobs.words.job import Job
from slipway.jobs.words.run import JobState
from slipway.jobs.words.targets import SageMakerTarget, encode_target, parameter_name
from tests.jobs.conftest import forget_clients
from tests.jobs.words.test_targets import SAGEMAKER_TARGET
from tests.yard.conftest import RunningYard, point_at
from tests.yard.services.sagemaker.conftest import site, training_yard
from tests.yard.services.sagemaker.training_site import BUCKET, IMAGE, TrainingSite

__all__ = ["site", "training_yard"]


@pytest.fixture
def target(
    site: TrainingSite, training_yard: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SageMakerTarget]:
    point_at(training_yard, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    forget_clients()
    ec2 = training_yard.client("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]
    groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])
    found = replace(
        SAGEMAKER_TARGET,
        name="small",
        instance_type="ml.m5.large",
        is_spot=False,
        execution_role=site.role,
        bucket=BUCKET,
        image=IMAGE,
        subnet=subnet["SubnetId"],
        security_group=groups["SecurityGroups"][0]["GroupId"],
        volume_gb=30,
        volume_key=None,
        efa_interfaces=0,
        file_system_id=None,
        file_system_mount=None,
        file_system_path=None,
    )
    training_yard.client("ssm").put_parameter(
        Name=parameter_name("small"), Value=encode_target(found), Type="String"
    )
    yield found
    forget_clients()


def test_a_recipe_runs_on_two_instances_and_is_told_by_instance_and_rank(
    site: TrainingSite, target: SageMakerTarget
) -> None:
    sent = submit(Job(name="smoke_here", recipe="smoke", nodes=2), "small")
    site.ended(sent.job_id)
    found = find_run("smoke_here", [target])
    lines = list(follow_lines(found, Wanted(), to_end=False))
    said = "\n".join(line.text for line in lines)
    assert found.run.state is JobState.SUCCEEDED, f"{platform.explain(found)}\n{said}"
    assert (found.run.recipe, found.run.nodes, found.run.exit_code) == ("smoke", 2, 0)
    assert {line.node for line in lines} == {0, 1}
    assert {line.rank for line in lines} == {None, 0, 1}
    told = platform.explain(found)
    assert f"its model is s3://{BUCKET}/jobs/{sent.job_id}/output/model.tar.gz" in told.sentence
    assert any("Training" in step for step in told.evidence)
    assert submit(Job(name="smoke_here", recipe="smoke", nodes=2), "small").existed
