"""Decides on one action on one resource as AWS does: a pure function of the policies that apply.

Source: IAM user guide, "Policy evaluation logic", for one account; "Key policies in AWS KMS" and "How IAM
roles differ from resource-based policies" for what a resource's own policy decides. Policies of organizations
(SCP, RCP) and session policies are left out: the yard has one account, and nothing in it makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from slipway.yard.permissions import conditions
from slipway.yard.permissions.conditions import is_like
from slipway.yard.permissions.policies import Caller, Named, PolicyDocument, PolicyStatement, named


class PolicyKind(Enum):
    """The kinds of policies, in the words of AWS's refusals."""

    IDENTITY = "identity-based policy"
    RESOURCE = "resource-based policy"
    BOUNDARY = "permissions boundary"
    ENDPOINT = "VPC endpoint policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One action on one resource by one caller. Condition keys are in lower case."""

    caller: Caller
    action: str  # "s3:GetObject"
    resource: str  # an ARN, or "*"
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPolicies:
    """All policies that apply. An absent boundary or endpoint limits nothing."""

    identity: tuple[PolicyDocument, ...] = ()
    resource: PolicyDocument | None = None
    boundary: PolicyDocument | None = None
    endpoint: PolicyDocument | None = None
    # For a KMS key or a role: its own policy must allow, or leave it to the account's identity policies.
    needs_resource: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    is_allowed: bool
    kind: PolicyKind | None = None  # the kind that refused
    denied_by: str = ""  # the policy with the explicit deny; empty if nothing allows


ALLOWED = Judgement(is_allowed=True)


def judge(access: Access, applied: AppliedPolicies) -> Judgement:
    """Return if the access is allowed; if not, which kind of policy refused it."""
    if denied := _explicit_deny(access, applied):
        return denied
    by_resource = _granted_by_resource(access, applied.resource)
    if applied.endpoint and not _allows(access, [applied.endpoint], check_who=True):
        return _lacking(PolicyKind.ENDPOINT)
    if access.caller.service or (applied.needs_resource and by_resource is Named.NOT):
        return ALLOWED if by_resource is not Named.NOT else _lacking(PolicyKind.RESOURCE)
    if by_resource is Named.SELF:
        return ALLOWED
    by_identity = _allows(access, applied.identity) or by_resource is Named.ROLE
    if not by_identity:
        return _lacking(PolicyKind.IDENTITY)
    if applied.boundary and not _allows(access, [applied.boundary]):
        return _lacking(PolicyKind.BOUNDARY)
    return ALLOWED


def applies(statement: PolicyStatement, access: Access) -> bool:
    """Return True if action, resource and conditions of the statement match; ignore its principal."""
    keys = access.keys if statement.has_variables else None
    action = access.action.lower()
    if any(is_like(pattern.lower(), action) for pattern in statement.actions) is statement.is_not_action:
        return False
    if statement.resources:  # a trust policy has none: the resource is the role itself
        fits = any(is_like(pattern, access.resource, keys) for pattern in statement.resources)
        if fits is statement.is_not_resource:
            return False
    return conditions.hold(statement.conditions, access.keys, variables=statement.has_variables)


def _lacking(kind: PolicyKind) -> Judgement:
    return Judgement(is_allowed=False, kind=kind)


def _explicit_deny(access: Access, applied: AppliedPolicies) -> Judgement | None:
    by_kind = {
        PolicyKind.IDENTITY: applied.identity,
        PolicyKind.RESOURCE: [applied.resource],
        PolicyKind.BOUNDARY: [applied.boundary],
        PolicyKind.ENDPOINT: [applied.endpoint],
    }
    for kind, policies in by_kind.items():
        for policy in filter(None, policies):
            for statement in policy.statements:
                if not statement.is_allow and _named(statement, access) and applies(statement, access):
                    return Judgement(is_allowed=False, kind=kind, denied_by=statement.sid or policy.name)
    return None


def _named(statement: PolicyStatement, access: Access) -> bool:
    return statement.who is None or named(statement.who, access.caller) is not Named.NOT


def _granted_by_resource(access: Access, policy: PolicyDocument | None) -> Named:
    """Return the strongest way in which the resource's own policy allows this caller."""
    ways = [
        named(statement.who, access.caller)
        for statement in (policy.statements if policy else ())
        if statement.is_allow and statement.who and applies(statement, access)
    ]
    return max(ways, key=list(Named).index, default=Named.NOT)


def _allows(access: Access, policies: Iterable[PolicyDocument], *, check_who: bool = False) -> bool:
    return any(
        statement.is_allow and (not check_who or _named(statement, access)) and applies(statement, access)
        for policy in policies
        for statement in policy.statements
    )
