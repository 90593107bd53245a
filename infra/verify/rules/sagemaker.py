"""Rules for SageMaker's training jobs: a role for one account, a group open to itself, nothing that stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipway.infra.verify.rules.efa import self_rules
from slipway.infra.verify.rules.template import (
    Finding,
    Properties,
    Template,
    as_list,
    checks,
    logical_id,
    resources,
    rule,
    services_in,
)

_PRINCIPAL = "sagemaker.amazonaws.com"
_MAKES_INTERFACES = "ec2:CreateNetworkInterface"
_GROUP = "AWS::EC2::SecurityGroup"
# Billed by the hour until somebody deletes them, whether they are used or not.
_STANDING = (
    "AWS::SageMaker::App",
    "AWS::SageMaker::Cluster",
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::NotebookInstance",
)


@checks("sagemaker-role", "AWS::IAM::Role")
def role_is_for_this_account(properties: Properties) -> Iterator[str]:
    """Require the source account: without it SageMaker uses the role for any account that names it."""
    for statement in as_list(properties.get("AssumeRolePolicyDocument", {}).get("Statement")):
        asked = {key for test in statement.get("Condition", {}).values() for key in test}
        if _PRINCIPAL in services_in(statement) and not asked & {"aws:SourceAccount", "aws:SourceArn"}:
            yield f"lets {_PRINCIPAL} in for any account; ask aws:SourceAccount"


@rule("sagemaker-group")
def group_lets_itself_through(template: Template) -> Iterator[Finding]:
    """Require all traffic within a group that SageMaker puts instances in: EFA and NCCL need both ways."""
    own = {name for name, _ in resources(template, _GROUP)}
    open_in = self_rules(template, "AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId")
    open_out = self_rules(template, "AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId")
    for name, statement in _policies(template):
        if _MAKES_INTERFACES not in as_list(statement.get("Action")):
            continue
        for group in sorted(own & set(_names_in(statement.get("Resource"))) - (open_in & open_out)):
            lacks = "lacks a rule for all traffic with itself"
            yield Finding(name, f"puts instances into {group}, which {lacks}")


@rule("sagemaker-nothing-stands")
def nothing_stands(template: Template) -> Iterator[Finding]:
    """Refuse what is billed until somebody deletes it; a training job ends by itself."""
    for name, _ in resources(template, *_STANDING):
        sort = template["Resources"][name]["Type"]
        yield Finding(name, f"is an {sort}, billed until it is deleted; train in jobs")


def _policies(template: Template) -> Iterator[tuple[str, Properties]]:
    for name, properties in resources(template, "AWS::IAM::ManagedPolicy"):
        for statement in as_list(properties.get("PolicyDocument", {}).get("Statement")):
            yield name, statement


def _names_in(value: object) -> Iterator[str]:
    """Yield every logical id that an expression refers to."""
    if name := logical_id(value):
        yield name
    elif isinstance(value, Mapping):
        yield from (name for each in value.values() for name in _names_in(each))
    elif isinstance(value, list):
        yield from (name for each in value for name in _names_in(each))
