"""Runs cdk-nag on our stacks; every finding that we accept is one entry of ACCEPTED, with its reason.

packs.py has the packs that only our own gates run. infra/verify/rules/ checks the same templates for what
cdk-nag does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks, NagPack
from constructs import IConstruct

from slipway.infra.verify.wildcards import WILDCARDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Accepts one finding: `path` is the construct's in its stack, `detail` matches IAM5's brackets."""

    rule: str
    path: str
    reason: str
    detail: str = ""


ACCEPTED = (
    *(
        Accepted(rule="IAM5", path=f"{path}/Policy/Resource", detail=rf"Resource::{resource}", reason=reason)
        for path, wildcards in WILDCARDS.items()
        for resource, reason in wildcards.items()
    ),
    Accepted(
        rule="S1",
        path="Data/Resource/Resource",
        reason="with keep_data=False only: access logs keep coming, and their bucket could never be deleted",
    ),
    Accepted(
        rule="SMG4",
        path="Secret/Resource",
        reason="nodes derive their trust from it at boot, so rotation would tear a running cluster apart; it "
        "goes with its cluster, and the next one has another",
    ),
    Accepted(
        rule="AS3",
        path="NodeGroup/Resource",
        reason="an EventBridge rule mails failed launches through the alarm topic; Auto Scaling's own "
        "notifications reach an encrypted topic only through a key policy that names its service-linked "
        "role, which a fresh account does not have",
    ),
)


class NagChecks(AwsSolutionsChecks):
    """Runs cdk-nag's own pack on some stacks of an app, and leaves out what ACCEPTED names.

    Validations.acknowledge() takes no patterns, and IAM5 puts names into its ids that synthesis makes up.
    """

    def __init__(self, scope: IConstruct, stacks: Sequence[cdk.Stack]) -> None:
        super().__init__(scope)
        self._stacks = stacks

    def validate(self, context: cdk.IPolicyValidationContext) -> cdk.PolicyValidationPluginReport:
        return kept_violations(self, self._stacks, is_accepted)


def kept_violations(
    pack: NagPack, stacks: Sequence[cdk.Stack], accepts: Callable[[str, str], bool]
) -> cdk.PolicyValidationPluginReport:
    """Run a pack on stacks, and leave out findings whose id and construct's path `accepts` knows."""
    violations = [
        kept
        for stack in stacks
        for violation in pack.validate_scope(stack).violations
        if (kept := _without_accepted(violation, stack, accepts)) is not None
    ]
    return cdk.PolicyValidationPluginReport(success=not violations, violations=violations)


def add_nag_checks(scope: cdk.Stage, stacks: Sequence[cdk.Stack]) -> None:
    """Fail synthesis on every finding in these stacks that is not accepted here.

    An app may have other stacks: those are their owner's.
    """
    cdk.Validations.of(scope).add_plugins(NagChecks(scope, stacks))


def is_accepted(finding: str, construct_path: str, accepted: Sequence[Accepted] = ACCEPTED) -> bool:
    """Match a finding as cdk-nag prints it, AwsSolutions-IAM5[Resource::*], and its path from the stack."""
    rule, _, detail = finding.removeprefix("AwsSolutions-").partition("[")
    path = construct_path.partition("/")[2]
    return any(
        each.rule == rule and each.path == path and re.fullmatch(each.detail, detail.removesuffix("]"))
        for each in accepted
    )


def _without_accepted(
    violation: cdk.PolicyViolation, stack: cdk.Stack, accepts: Callable[[str, str], bool]
) -> cdk.PolicyViolation | None:
    above = stack.node.path.removesuffix(stack.node.id)  # of its Stage
    resources = []
    for resource in violation.violating_resources:
        assert isinstance(resource, cdk.PolicyViolatingResource), "cdk-nag returns structs, not dictionaries"
        if not accepts(violation.rule_name, (resource.construct_path or "").removeprefix(above)):
            resources.append(resource)
    if not resources:
        return None
    return cdk.PolicyViolation(
        rule_name=violation.rule_name,
        description=violation.description,
        severity=violation.severity,
        violating_resources=resources,
    )
