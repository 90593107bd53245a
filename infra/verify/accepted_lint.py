"""All warnings of cfn-lint and of the CDK's own validator that we accept, with their reasons.

They are written into the templates, where both look; infra/verify/nag.py has what is accepted of cdk-nag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from constructs import IConstruct


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedLint:
    """Accepts one warning of cfn-lint and of the CDK's own validator, which share their ids."""

    rule: str
    subnet: str  # of a network of ours
    reason: str


_ONE_ZONE = "nodes with EFA are in one zone, the one that has them; which is a declared setting"
ACCEPTED_LINT = (
    AcceptedLint(rule="W3010", subnet="PrivateSubnet", reason=_ONE_ZONE),
    AcceptedLint(rule="W3010", subnet="PublicSubnet", reason=_ONE_ZONE),
)


def acknowledge_lint(stacks: Sequence[cdk.Stack]) -> None:
    """Write into these stacks which warnings of ACCEPTED_LINT they may have."""
    for stack in stacks:
        network = stack.node.try_find_child("Vpc")
        if network is None:
            continue
        for accepted in ACCEPTED_LINT:
            _acknowledge(network.node.try_find_child(accepted.subnet), accepted)


def _acknowledge(construct: IConstruct | None, accepted: AcceptedLint) -> None:
    if not isinstance(construct, cdk.CfnResource):
        return
    acknowledgment = cdk.Acknowledgment(
        id=f"CloudFormation-Validate::{accepted.rule}", reason=accepted.reason
    )
    cdk.Validations.of(construct).acknowledge(acknowledgment)
    construct.add_metadata("cfn-lint", {"config": {"ignore_checks": [accepted.rule]}})
