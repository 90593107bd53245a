"""The checks of settings outside our stacks: each names a command that works; silence is never an ok."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.infra.declare.types import ControllerSize, SlurmCluster
from slipway.jobs.cloud.aws import Unanswered
from slipway.jobs.clusters.preflight.settings import DefaultGroup, EbsKey
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from tests.jobs.clusters.preflight.test_checks import BAKE, verdict
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
    failed = verdict(check, **facts)
    assert failed.outcome is CheckOutcome.FAILED
    assert found in failed.found
    assert fix in failed.fix


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
