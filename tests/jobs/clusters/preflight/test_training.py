"""What SageMaker lets an account train with: asked before a deployment, and never guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.infra.declare.types import SageMakerCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.preflight.training_limits import TrainingLimits, TrainingLog, TrainingQuota
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from tests.jobs.clusters.preflight.test_checks import verdict
from tests.jobs.declared import declared

SAGEMAKER = declared("sagemaker", SageMakerCluster)
TYPE = "ml.p4d.24xlarge"


def quota(name: str, value: float) -> TrainingQuota:
    return TrainingQuota(code="L-1", name=name, value=value)


LIMITS = TrainingLimits(
    instances=quota(f"{TYPE} for training job usage", 2),
    warm_pool=quota(f"{TYPE} for training warm pool usage", 2),
    longest_job=quota("Longest run time for a training job", 432_000),
    log=TrainingLog(keeps_days=365, is_encrypted=False),
)


@pytest.mark.parametrize("check", ["training instances", "warm pool", "longest training job", "training log"])
def test_an_account_that_has_enough_is_well_and_other_clusters_are_not_asked(check: str) -> None:
    assert verdict(check, SAGEMAKER, training=LIMITS).outcome is CheckOutcome.OK
    assert verdict(check, training=None).outcome is CheckOutcome.OK


def test_an_account_that_may_start_none_is_told_which_quota_to_raise() -> None:
    none = replace(LIMITS, instances=quota(f"{TYPE} for training job usage", 0))
    found = verdict("training instances", SAGEMAKER, training=none)
    assert found.outcome is CheckOutcome.FAILED
    assert f"max_nodes is 2, the quota '{TYPE} for training job usage' is 0" in found.found
    assert "--service-code sagemaker --quota-code L-1 --desired-value 2 --region us-east-1" in found.fix


def test_a_job_longer_than_the_account_allows_is_told() -> None:
    long = replace(SAGEMAKER, job_timeout_hours=200)
    found = verdict("longest training job", long, training=LIMITS)
    assert found.outcome is CheckOutcome.FAILED
    assert "--desired-value 720000" in found.fix


def test_a_warm_pool_is_a_warning_that_says_what_is_billed() -> None:
    found = verdict("warm pool", replace(SAGEMAKER, warm_pool_minutes=30), training=LIMITS)
    assert found.outcome is CheckOutcome.WARNING
    assert "instances are billed for 30 minutes after each job" in found.found


def test_a_log_that_is_kept_for_ever_is_a_warning_with_the_command_that_ends_it() -> None:
    for log in (None, TrainingLog(keeps_days=None, is_encrypted=False)):
        found = verdict("training log", SAGEMAKER, training=replace(LIMITS, log=log))
        assert found.outcome is CheckOutcome.WARNING
        assert "aws logs put-retention-policy --log-group-name /aws/sagemaker/TrainingJobs" in found.fix


def test_a_quota_that_aws_does_not_list_is_unknown_and_never_ok() -> None:
    found = verdict("training instances", SAGEMAKER, training=replace(LIMITS, instances=None))
    assert found.outcome is CheckOutcome.UNKNOWN
    refused = Unanswered(action="servicequotas:ListServiceQuotas", code="AccessDenied", message="no")
    assert verdict("warm pool", SAGEMAKER, training=refused).outcome is CheckOutcome.UNKNOWN


def test_quotas_and_amis_of_ec2_are_no_question_of_training() -> None:
    for check in ("vCPU quota", "machine image", "locked versions", "container image"):
        assert verdict(check, SAGEMAKER, training=LIMITS).outcome is CheckOutcome.OK, check
