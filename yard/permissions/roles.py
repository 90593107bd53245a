"""Roles that AWS's services assume, and acts of these services for which the yard has no request to judge.

`assume` gives the session for an instance, a task or a build; `refused` judges acts without a request,
such as those of an agent that the yard imitates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import deployed, judging
from slipway.yard.permissions.calls.asked import ActionNeed
from slipway.yard.permissions.conditions import is_like
from slipway.yard.permissions.evaluation import Access, AppliedPolicies, Judgement, judge
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.permissions.policies import Caller

# Services that send no aws:SourceAccount or aws:SourceArn (IAM user guide, "The confused deputy problem").
_SILENT = frozenset({"ec2.amazonaws.com"})


def assume(name_or_arn: str, service: str, session: str) -> RoleSession:
    """Return the role's session; raise ApiError if its trust policy does not allow the service."""
    role = deployed.role(name_or_arn)
    told = {} if service in _SILENT else {"aws:sourceaccount": (ACCOUNT,)}
    access = Access(
        caller=Caller(account=ACCOUNT, service=service),
        action="sts:AssumeRole",
        resource=role.arn if role else name_or_arn,
        keys=told,
    )
    judgement = judge(access, AppliedPolicies(resource=role.trust if role else None))
    if role is None or not judgement.is_allowed:
        reason = judging.reason(access.action, judgement)
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        judging.note_denied(
            judging.Denied(
                caller=service,
                role=access.resource.rpartition("/")[2],
                action=access.action,
                resource=access.resource,
                reason=reason,
                policy=f"the trust policy of {access.resource}",
                statement=trust,
            )
        )
        raise ApiError("AccessDenied", f"{service} may not assume {access.resource}", status=403)
    return RoleSession(role_arn=role.arn, role_id=role.id, name=session)


def in_vpc_of(session: RoleSession, subnet: str, region: str) -> RoleSession:
    """Return the session in the subnet's VPC, whose endpoints' policies then apply."""
    zones: Any = moto_backend("ec2", region).subnets.values()
    found = next((zone[subnet] for zone in zones if subnet in zone), None)
    return replace(session, vpc=str(found.vpc_id) if found else "")


def refused(session: RoleSession, region: str, needs: Iterable[ActionNeed]) -> str:
    """Judge acts without a request; return AWS's message for the first refused one, or ""."""
    for need in needs:
        access, judgement = judging.judged(session, need, region)
        if not judgement.is_allowed:
            return judging.words(access, judgement)
    return ""


def used() -> list[dict[str, object]]:
    """List for every role each action that its policies allow, and how often it was used."""
    return [
        {"role": name, "policy": policy.name, "action": action, "used": _times(action, judging.used(name))}
        for name in deployed.role_names()
        if (role := deployed.role(name))
        for policy in role.identity
        for action in dict.fromkeys(
            action
            for statement in policy.statements
            if statement.is_allow and not statement.is_not_action
            for action in statement.actions
        )
    ]


def _times(pattern: str, used_actions: Mapping[str, int]) -> int:
    return sum(times for action, times in used_actions.items() if is_like(pattern.lower(), action.lower()))


# Acts of an AWS service on its own: only the policy of the resource decides. Alarms and EventBridge rules,
# for example, deliver like this.


def judge_service(
    service: str, action: str, resource: str, keys: Mapping[str, str] | None = None
) -> Judgement:
    """Judge one action of a service principal, such as events.amazonaws.com, on a resource of the yard.

    `keys` are the condition keys that the service sends, such as aws:SourceArn and aws:SourceAccount. They
    differ: EventBridge sends no aws:SourceAccount to KMS.
    """
    sent = {name.lower(): (value,) for name, value in (keys or {}).items()}
    access = Access(
        caller=Caller(account=ACCOUNT, service=service),
        action=action,
        resource=resource,
        keys={"aws:principalisawsservice": ("true",), "aws:securetransport": ("true",), **sent},
    )
    return judge(access, AppliedPolicies(resource=deployed.of_resource(resource)))
