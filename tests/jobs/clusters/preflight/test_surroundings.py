"""The checks of settings and quotas outside our stacks: each names a command that works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.types import ControllerSize, SageMakerCluster, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.neighbours import QuotaShare
from slipway.jobs.clusters.preflight.facts import DefaultGroup, EbsKey
from slipway.jobs.clusters.preflight.training_limits import TrainingLimits, TrainingLog, TrainingQuota
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from tests.jobs.clusters.preflight.test_checks import BAKE, assert_fails, need, verdict
from tests.jobs.declared import declared

TRN1 = declared("trn1", SlurmCluster)


@pytest.mark.parametrize(
    ("check", "facts", "found", "fix"),
    [
        (
            "cost allocation tag",
            {"cost_tag": "Inactive"},
            "slipway:cluster is inactive in Billing, so the budget counts nothing",
            "--cost-allocation-tags-status TagKey=slipway:cluster,Status=Active",
        ),
        (
            "default security group",
            {"default_group": DefaultGroup(id="sg-1", admits_itself=False, lets_out=True)},
            "does not admit its own members",
            "aws ec2 authorize-security-group-ingress --group-id sg-1 --protocol all --source-group sg-1",
        ),
        (
            "default security group",
            {"default_group": DefaultGroup(id="sg-1", admits_itself=True, lets_out=False)},
            "lets nothing out",
            "aws ec2 authorize-security-group-egress --group-id sg-1",
        ),
    ],
)
def test_a_setting_that_breaks_a_cluster_is_named_with_the_command_that_mends_it(
    check: str, facts: dict[str, Any], found: str, fix: str
) -> None:
    assert_fails(check, facts, found, fix)


def test_a_key_of_the_accounts_own_is_a_warning_since_templates_name_that_of_aws() -> None:
    warned = verdict("default EBS key", ebs_key=EbsKey(id="arn:aws:kms:us-east-1:1:key/a", is_of_aws=False))
    assert warned.outcome is CheckOutcome.WARNING
    assert "ours name alias/aws/ebs instead" in warned.found
    assert warned.fix == "aws ec2 reset-ebs-default-kms-key-id --region us-east-1"


def test_an_ubuntu_image_under_aws_batch_is_a_warning_with_the_other_way() -> None:
    warned = verdict("AMI and AWS Batch", ami_is_debian=True, other_ways=("dl1-mpi",))
    assert warned.outcome is CheckOutcome.WARNING
    assert "multi-node jobs on Amazon Linux only, and this AMI is Ubuntu" in warned.found
    assert warned.fix == "the other way, over MPI: slipway preflight dl1-mpi"


def test_the_system_of_a_foreign_image_is_not_guessed() -> None:
    assert verdict("AMI and AWS Batch", ami_is_debian=None).outcome is CheckOutcome.UNKNOWN


def test_a_tag_that_billing_has_not_seen_is_a_warning_since_nobody_can_activate_it_yet() -> None:
    warned = verdict("cost allocation tag", cost_tag=None)
    assert warned.outcome is CheckOutcome.WARNING
    assert "the budget counts nothing" in warned.found
    assert "a day after the first deployment: aws ce update-cost-allocation-tags-status" in warned.fix


def test_a_member_account_is_told_that_the_paying_one_activates_the_tag() -> None:
    refusal = Unanswered(
        action="ce:ListCostAllocationTags",
        code="AccessDeniedException",
        message="Linked account doesn't have access to cost allocation tags.",
    )
    unknown = verdict("cost allocation tag", cost_tag=refusal)
    assert unknown.outcome is CheckOutcome.UNKNOWN
    assert unknown.fix.startswith("in the paying account: aws ce update-cost-allocation-tags-status")


def test_the_default_group_of_a_network_to_come_is_unknown() -> None:
    unknown = verdict("default security group", default_group=None)
    assert unknown.outcome is CheckOutcome.UNKNOWN
    assert unknown.fix == "cdk deploy dl1-network && slipway preflight dl1"


def test_a_bakery_that_stands_is_not_deployed_again() -> None:
    failed = verdict("machine image", parameter=None, bakery="UPDATE_COMPLETE")
    assert failed.fix == "slipway image bake gaudi-ecs --wait --region us-east-1"
    broken = verdict("machine image", parameter=None, bakery="ROLLBACK_COMPLETE")
    assert broken.fix == BAKE


@pytest.mark.parametrize(
    ("changes", "deployed", "outcome"),
    [
        ({}, None, CheckOutcome.OK),
        ({}, "small", CheckOutcome.OK),
        ({"max_nodes": 64}, "medium", CheckOutcome.OK),
        ({"max_nodes": 64}, "small", CheckOutcome.FAILED),
        ({"controller": ControllerSize.SMALL}, "medium", CheckOutcome.FAILED),
    ],
)
def test_a_controller_that_would_have_to_change_its_size_is_told_of_before_the_deployment(
    changes: dict[str, Any], deployed: str | None, outcome: CheckOutcome
) -> None:
    found = verdict("size of the controller", replace(TRN1, **changes), controller=deployed)
    assert found.outcome is outcome
    if outcome is CheckOutcome.FAILED:
        assert f"ControllerSize.{str(deployed).upper()}" in found.fix
        assert "slipway cluster destroy trn1" in found.fix


# SageMaker is asked before a deployment what the account may train with; nothing is guessed.
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
    assert found.fix == "slipway cluster quota sagemaker --request"


def test_a_job_longer_than_the_account_allows_is_told() -> None:
    long = replace(SAGEMAKER, job_timeout_hours=200)
    found = verdict("longest training job", long, training=LIMITS)
    assert found.outcome is CheckOutcome.FAILED
    assert found.fix == "slipway cluster quota sagemaker --request"


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


# Preflight checks every vCPU quota that counts the cluster's machines, together with all other machines
# there.


def test_what_is_deployed_beside_the_cluster_fails_it_and_the_sum_is_asked_for() -> None:
    found = verdict("vCPU quota", vcpus=(need(1536, QuotaShare(who="dl2", amount=96, stands=True)),))
    assert found.outcome is CheckOutcome.FAILED
    assert "16 nodes × 96 vCPUs = 1536 vCPUs and 96 of dl2, 1632 in all, but the quota" in found.found
    assert found.fix == "slipway cluster quota dl1 --request"


def test_a_quota_of_exactly_what_is_needed_suffices() -> None:
    assert verdict("vCPU quota", vcpus=(need(1536),)).outcome is CheckOutcome.OK


def test_what_is_only_declared_warns_before_it_takes_the_quota() -> None:
    found = verdict("vCPU quota", vcpus=(need(1536, QuotaShare(who="dl2", amount=96, stands=False)),))
    assert found.outcome is CheckOutcome.WARNING
    assert "1632 in all" in found.found
    assert "enough unless clusters that are declared and not deployed are deployed, too" in found.found
    assert found.fix == "slipway cluster quota dl1 --request"


def test_the_quota_of_a_login_node_is_judged_as_that_of_the_nodes_is() -> None:
    login = need(1, type_="c6i.large", count=1)
    found = verdict("vCPU quota", vcpus=(need(1536), login))
    assert found.outcome is CheckOutcome.FAILED
    assert "1 nodes × 2 vCPUs = 2 vCPUs, but the quota" in found.found


def test_a_quota_that_nobody_lists_is_unknown() -> None:
    assert verdict("vCPU quota", vcpus=(replace(need(0), quota=None),)).outcome is CheckOutcome.UNKNOWN
