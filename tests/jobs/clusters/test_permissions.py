"""The policies of permissions.csv: valid, no wider than AWS allows to say, and short enough for AWS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pytest

from slipway.jobs.clusters.permissions import (
    ANY,
    CONDITIONS,
    LONGEST,
    PURPOSES,
    NothingToAllow,
    PolicyScope,
    grants,
    policy,
)
from slipway.jobs.words.targets import KINDS
from slipway.yard.permissions.calls.arns import resource_types
from slipway.yard.permissions.policies import decode
from tests.architecture.tracked import ROOT

# Actions that have a resource level, and that list before any name is known, or by a tag.
LIST_ALL = {
    "cloudformation:DescribeStacks",
    "ecr:DescribeRepositories",
    "elasticfilesystem:DescribeFileSystems",
    "servicequotas:ListRequestedServiceQuotaChangeHistoryByQuota",  # of quotas that only the command knows
}
NO_NODES = {("sagemaker", "ssh"), ("sagemaker", "images")}
EVERY = [(kind, purpose) for kind in KINDS for purpose in PURPOSES if (kind, purpose) not in NO_NODES]


def place(kind: str, **changes: Any) -> PolicyScope:
    own: dict[str, Any] = {"region": "eu-west-1", "account": "111122223333", "image": "cpu-mpi"}
    return PolicyScope(**{"cluster": "team", "kind": kind, **own, **changes})


def statements(kind: str, purpose: str) -> list[Mapping[str, Any]]:
    document: Any = policy(purpose, place(kind))
    return list(document["Statement"])


@pytest.mark.parametrize(("kind", "purpose"), EVERY)
def test_a_policy_is_valid_and_short_enough_and_names_no_more_than_it_must(kind: str, purpose: str) -> None:
    text = json.dumps(policy(purpose, place(kind)))
    assert decode(purpose, text).statements
    assert len("".join(text.split())) <= LONGEST
    for statement in statements(kind, purpose):
        for action in statement["Action"]:
            types = resource_types(action)
            assert types is not None, f"AWS's reference has no action {action}"
            is_any = statement["Resource"] == [ANY]
            assert not (is_any and types) or action in LIST_ALL, f"{action} can be limited to {types}"
            assert is_any or types, f"AWS takes no resource for {action}"
        assert not re.search(r"\{\w+\}", json.dumps(statement)), "a name is not filled in"


# AWS evaluates a log group that is found by a search, although its reference lists none for the action.
NO_FORM = {"logs:DescribeLogGroups"}


@pytest.mark.parametrize(("kind", "purpose"), EVERY)
def test_every_resource_has_the_form_of_one_that_its_action_takes(kind: str, purpose: str) -> None:
    text = (files("cfnlint") / "data" / "AdditionalSpecs" / "Policies.json").read_text(encoding="utf-8")
    reference = json.loads(text)
    for statement in statements(kind, purpose):
        for action in {*statement["Action"]} - NO_FORM if statement["Resource"] != [ANY] else ():
            service, _, name = action.lower().partition(":")
            forms = {each.lower(): fact for each, fact in reference[service]["Resources"].items()}
            taken = [
                re.sub(r"\$\{\w+\}", "[^:]*", form)
                for each in reference[service]["Actions"][name]["Resources"]
                for form in forms[each.lower()]["ARNFormats"]
            ]
            for resource in statement["Resource"]:
                assert any(re.fullmatch(form, resource) for form in taken), f"{action} takes no {resource}"


HINT = re.compile(r"""\b(?:allow|remedy)\(\s*(?:(?:"([\w:]+)"|\w+), )?["'](\w+)["']""")
HINTS = [
    (path, *found)
    for path in (ROOT / "jobs").rglob("*.py")
    for found in HINT.findall(path.read_text(encoding="utf-8"))
]


# What AWS asks for besides the called action, by its own documents: the API references of CloudFormation
# (DescribeStacks) and EFS (DeleteMountTarget); dependent actions in the Service Authorization Reference, EC2
# Image Builder; the user guide of Systems Manager, "Sample IAM policies for Session Manager"; and AWS's
# managed policy ServiceQuotasFullAccess, for the first request of an account.
BESIDES = (
    ("read", "cloudformation:DescribeStacks", "cloudformation:ListStacks"),
    ("destroy", "cloudformation:DescribeStacks", "cloudformation:ListStacks"),
    ("leftovers", "cloudformation:DescribeStacks", "cloudformation:ListStacks"),
    ("leftovers", "elasticfilesystem:DeleteMountTarget", "ec2:DeleteNetworkInterface"),
    ("images", "imagebuilder:StartImagePipelineExecution", "imagebuilder:GetImagePipeline"),
    ("deploy", "servicequotas:RequestServiceQuotaIncrease", "iam:CreateServiceLinkedRole"),
    ("ssh", "ssm:StartSession", "ssmmessages:OpenDataChannel"),
    ("ssh", "ssm:StartSession", "ssm:ResumeSession"),
)


@pytest.mark.parametrize(("purpose", "called", "besides"), BESIDES)
def test_a_policy_allows_what_aws_asks_for_besides_a_call(purpose: str, called: str, besides: str) -> None:
    for kind, each in EVERY:
        allowed = {action for row in statements(kind, each) for action in row["Action"]}
        assert each != purpose or called not in allowed or besides in allowed, kind


def test_a_person_resumes_their_own_sessions_only() -> None:
    (own,) = [row for row in statements("mpi", "ssh") if "ssm:ResumeSession" in row["Action"]]
    assert own["Resource"] == ["arn:aws:ssm:eu-west-1:111122223333:session/${aws:userid}-*"]


def test_what_a_hint_names_is_allowed_by_the_policy_that_it_names() -> None:
    assert len(HINTS) >= 10
    for path, action, purpose in HINTS:
        assert purpose in PURPOSES, path
        allowed = {each for grant in grants() if purpose in grant.purposes for each in grant.actions}
        assert not action or action in allowed, path


def test_what_a_row_says_is_known() -> None:
    for grant in grants():
        assert grant.purposes <= PURPOSES.keys()
        assert grant.kinds <= KINDS.keys()
        assert grant.condition in CONDITIONS


@pytest.mark.parametrize(("kind", "purpose"), sorted(NO_NODES))
def test_a_cluster_without_nodes_needs_no_policy_for_them(kind: str, purpose: str) -> None:
    with pytest.raises(NothingToAllow, match=f"needs no permissions for {purpose}"):
        policy(purpose, place(kind))


def test_a_bake_is_only_allowed_where_nodes_boot_a_baked_ami() -> None:
    for image, is_there in (("cpu-mpi", True), ("", False)):
        text = json.dumps(policy("images", place("mpi", image=image)))
        assert ("imagebuilder:StartImagePipelineExecution" in text) is is_there


def test_two_clusters_share_no_resource_that_has_the_clusters_name() -> None:
    own = json.dumps(statements("batch", "submit"))
    for name in ("team-storage-data", "job-queue/team", "targets/team", "observability-JobLogs"):
        assert name in own
    other: Any = policy("submit", place("batch", cluster="other"))
    assert "team" not in json.dumps(other)
