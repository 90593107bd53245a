"""`slipway cluster permissions`: its policies allow what the commands call, and no command needs more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.clusters.permissions import PolicyScope, grants_for, policy
from slipway.yard.endpoint import ACCOUNT, control
from tests.architecture.tracked import ROOT
from tests.jobs.conftest import Slipway
from tests.jobs.deployed import deploy_sagemaker_target, deploy_target, record_target, register_definition
from tests.yard.asking import BY_ACCOUNT, make_role
from tests.yard.conftest import REGION, RunningYard

PERSON = "person"
PLACE = PolicyScope(cluster="dl1", kind="batch", region=REGION, account=ACCOUNT, image="")
SUBMIT = ("submit", "smoke", "--on", "dl1", "--nodes", "2", "--confirm-cost", "unknown", "--name")
# An action, and the command that calls it. Names are those of jobs that `job` submits beforehand.
CALLED = {
    "batch:DescribeComputeEnvironments": ("cluster", "targets", "dl1"),
    "batch:DescribeJobQueues": ("cluster", "targets", "dl1"),
    "batch:DescribeJobs": ("status", "first"),
    "batch:ListJobs": ("status", "first"),
    "batch:SubmitJob": (*SUBMIT, "second"),
    "batch:TagResource": (*SUBMIT, "third"),
    "batch:TerminateJob": ("cancel", "first"),
    "ecr:DescribeImages": (*SUBMIT, "fourth", "--dry-run"),
    "ssm:GetParameter": (*SUBMIT, "fifth"),
    "ssm:GetParametersByPath": ("status", "first"),
}
BOOTSTRAP = ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"
# The yard does without them, or calls them only for an update; AWS's schemas of the resources name them.
UNTRIED = {
    *("iam:GetRolePolicy", "iam:TagRole", "iam:UpdateAssumeRolePolicy"),
    *("s3:DeleteBucket", "ssm:GetParameters"),
}


@pytest.fixture
def dl1(yard_shell: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningYard]:
    """A cluster with the names that a deployment gives, and a job on it; the caller is nobody's role."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    target = deploy_target(yard_shell)
    repository = yard_shell.client("ecr").create_repository(repositoryName="dl1-storage-image1")["repository"]
    definition = register_definition(yard_shell, "dl1-JobA1")
    own = replace(target, job_definition_arn=definition, repository_uri=repository["repositoryUri"])
    record_target(yard_shell, own)
    yield yard_shell
    control(yard_shell, "POST", "/caller-role", "")


def printed_policy(slipway: Slipway, purpose: str) -> Any:
    return slipway.json("cluster", "permissions", "dl1", "--for", purpose)


def become(yard: RunningYard, document: Any, without: str = "") -> None:
    """Be somebody who has this policy, less one action."""
    for statement in document["Statement"]:
        statement["Action"] = [action for action in statement["Action"] if action != without]
    kept = {**document, "Statement": [each for each in document["Statement"] if each["Action"]]}
    if PERSON not in [role["RoleName"] for role in yard.client("iam").list_roles()["Roles"]]:
        make_role(yard, PERSON, BY_ACCOUNT)
    yard.client("iam").put_role_policy(RoleName=PERSON, PolicyName="own", PolicyDocument=json.dumps(kept))
    control(yard, "POST", "/caller-role", PERSON)


def test_who_submits_gets_every_command_done_with_the_printed_policy(
    dl1: RunningYard, slipway: Slipway
) -> None:
    become(dl1, printed_policy(slipway, "submit"))
    slipway.printed(*SUBMIT, "first")
    for command in CALLED.values():
        slipway.printed(*command)
    assert control(dl1, "GET", "/denied") == []
    used = {row["action"] for row in control(dl1, "GET", "/permissions") if row["used"]}
    assert used >= CALLED.keys()


@pytest.mark.parametrize("action", sorted(CALLED))
def test_an_action_taken_away_is_refused_by_its_name(dl1: RunningYard, slipway: Slipway, action: str) -> None:
    document = printed_policy(slipway, "submit")
    slipway.printed(*SUBMIT, "first")
    become(dl1, document, without=action)
    code, _, err = slipway(*CALLED[action])
    denied = [row["action"] for row in control(dl1, "GET", "/denied")]
    assert set(denied) == {action}
    assert action in err
    if code or CALLED[action][:2] == ("cluster", "targets"):
        assert "slipway cluster permissions" in err


def test_who_only_reads_may_not_submit_or_cancel(dl1: RunningYard, slipway: Slipway) -> None:
    document = printed_policy(slipway, "read")
    slipway.printed(*SUBMIT, "first")
    become(dl1, document)
    slipway.printed("status", "first")
    assert "batch:TerminateJob" in slipway.refused("cancel", "first")
    assert "batch:SubmitJob" in slipway(*SUBMIT, "second")[2]


@pytest.mark.long
@pytest.mark.skipif(not BOOTSTRAP.is_file(), reason="the CDK is not installed")
def test_the_policy_of_bootstrap_covers_what_cloudformation_does_for_its_stack(
    yard_shell: RunningYard,
) -> None:
    """CloudFormation works with the caller's permissions; the yard judges those of a role of the stack."""
    document: Any = policy("bootstrap", PLACE)
    name, cloudformation = "CDKToolkit", yard_shell.client("cloudformation")
    role = make_role(yard_shell, PERSON, {"Service": "cloudformation.amazonaws.com"}, *document["Statement"])
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=BOOTSTRAP.read_text(encoding="utf-8"),
        RoleARN=role,
        Capabilities=["CAPABILITY_NAMED_IAM"],
        Parameters=[{"ParameterKey": "FileAssetsBucketKmsKeyId", "ParameterValue": "AWS_MANAGED_KEY"}],
    )
    for waiter in ("stack_create_complete", "stack_delete_complete"):
        cloudformation.get_waiter(waiter).wait(
            StackName=name, WaiterConfig={"Delay": 0.05, "MaxAttempts": 400}
        )
        cloudformation.delete_stack(StackName=name)
    assert control(yard_shell, "GET", "/denied") == []
    unused = {row["action"] for row in control(yard_shell, "GET", "/permissions") if not row["used"]}
    assert {each for each in unused if not each.startswith("cloudformation:")} == UNTRIED


def test_jobs_of_a_cluster_that_the_policy_leaves_out_are_left_out_and_said(
    dl1: RunningYard, slipway: Slipway
) -> None:
    deploy_sagemaker_target(dl1)
    document = printed_policy(slipway, "submit")
    slipway.printed(*SUBMIT, "first")
    become(dl1, document)
    for command in (("status", "first"), ("status",), ("status", "--all")):
        code, out, err = slipway(*command)
        assert code == 0, err
        assert "first" in out
        assert "left out are the jobs of gptj, which your permissions do not cover" in err
    assert "ssm:GetParameter" in slipway.refused("status", "--on", "gptj")


def test_the_account_is_that_of_the_credentials_or_as_given(dl1: RunningYard, slipway: Slipway) -> None:
    assert f":{ACCOUNT}:" in json.dumps(printed_policy(slipway, "read"))
    text = slipway.printed("cluster", "permissions", "dl1", "--for", "read", "--account", "111122223333")
    assert ":111122223333:" in text
    assert ACCOUNT not in text


def test_every_action_that_a_person_needs_on_batch_is_tried() -> None:
    """Those that only a deployed cluster has are tried in tests/end_to_end/test_permissions.py."""
    always = {each for grant in grants_for("submit", PLACE) if not grant.when for each in grant.actions}
    on_deployed = {"logs:GetLogEvents", "servicequotas:ListServiceQuotas"}
    in_bucket = {each for each in always if each.startswith(("s3:", "kms:"))}
    assert always - on_deployed - in_bucket == CALLED.keys()
