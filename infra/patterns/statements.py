"""Statements of policies as data, and the pseudo parameters in their ARNs.

Every object and every attribute of the CDK's is a call to its own process, and synthesis takes as long as
these calls: a policy is one call, and constant answers are asked for once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

ACCOUNT_ID = Aws.ACCOUNT_ID
PARTITION = Aws.PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Allows actions to the owner of the policy; a statement with a principal is an iam.PolicyStatement."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, object] | None = None


def allow(
    sid: str, *actions: str, on: str | Sequence[str], where: Mapping[str, object] | None = None
) -> Statement:
    """Allow the actions on a resource, or on each of several."""
    resources = [on] if isinstance(on, str) else on
    return Statement(sid=sid, actions=actions, resources=resources, conditions=where)


def policy_document(statements: Sequence[Statement]) -> iam.PolicyDocument:
    written = [
        {
            "Sid": each.sid,
            "Effect": "Allow",
            "Action": list(each.actions),
            "Resource": list(each.resources),
            **({} if each.conditions is None else {"Condition": each.conditions}),
        }
        for each in statements
    ]
    return iam.PolicyDocument.from_json({"Statement": written})
