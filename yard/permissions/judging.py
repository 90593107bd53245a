"""The decision on a whole call of a role: every need is judged, counted, and refused in AWS's words.

What no table here decides is NOT_JUDGED: the one list of it, which `slipway yard status` shows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.permissions import deployed, record, refusals
from slipway.yard.permissions.callers import Caller
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, NotJudged
from slipway.yard.permissions.calls.facts import prefix
from slipway.yard.permissions.calls.needs import needs
from slipway.yard.permissions.evaluation import Access, AppliedPolicies, Judgement, judge
from slipway.yard.permissions.patterns import is_like
from slipway.yard.permissions.policies import decode
from slipway.yard.permissions.sessions import RoleSession

NOT_JUDGED = (
    "your own key, unless `slipway yard up --caller-role` gives it a role",
    "a stack without an execution role: it is made with all permissions, whoever asks for it",
    "CloudFormation's role, for types that are only recorded: the action that makes them, on some resource",
    "what EventBridge's rules do with their roles: only whether EventBridge may assume them",
    "policies of organizations (SCP, RCP), session policies, grants of KMS, ACLs of S3",
    "other accounts: the yard has one",
    "resources of a call that no table names: such a call is judged on the resource *",
    "condition keys that the yard cannot fill: they count as absent from the request",
    "hosts without a role: they answer Systems Manager, as with Default Host Management Configuration",
    "S3's DeleteObjects: refused as a whole where AWS refuses single keys",
    "TLS: requests count as if they had come over it",
)
_EVERYTHING = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
# The names of a service's VPC endpoint, where it is not the prefix of its actions.
_ENDPOINT_NAMES = {"cloudwatch": "monitoring"}
_ASSUMES = "sts:AssumeRole"


def check(session: RoleSession, call: AskedCall, protocol: str, among: Collection[str] = ()) -> None:
    """Raise ApiError for the first thing that the session's role may not do.

    `among`: the only actions, as patterns, that count; empty: all do.
    """
    try:
        needed = needs(call)
    except NotJudged:
        needed = (ActionNeed(action=f"{prefix(call.service)}:{call.operation}"),)
    for need in needed:
        if among and not any(is_like(action.lower(), need.action.lower()) for action in among):
            continue
        access, judgement = judged(session, need, call.region)
        if not judgement.is_allowed:
            raise refusals.error(call.service, protocol, refusals.words(access, judgement))


def trusts_account(role: deployed.DeployedRole) -> bool:
    """Return True if an administrator of the account may assume the role."""
    caller = Caller(account=ACCOUNT, arn=f"arn:aws:iam::{ACCOUNT}:root")
    everything = decode("administrator", _EVERYTHING)
    access = Access(caller=caller, action="sts:AssumeRole", resource=role.arn)
    return judge(
        access, AppliedPolicies(identity=(everything,), resource=role.trust, needs_resource=True)
    ).is_allowed


def judged(session: RoleSession, need: ActionNeed, region: str) -> tuple[Access, Judgement]:
    """Judge one need and record what came of it."""
    role = deployed.role(session.role_arn)
    service = need.action.partition(":")[0]
    endpoint = (
        deployed.endpoint(session.vpc, region, _ENDPOINT_NAMES.get(service, service))
        if session.vpc and not need.via
        else None
    )
    access = Access(
        caller=_caller(session),
        action=need.action,
        resource=need.resource,
        keys={
            **_keys(session, role, region),
            **_of_resource(need),
            **_of_endpoint(session, endpoint),
            **need.keys,
        },
    )
    applied = AppliedPolicies(
        identity=role.identity if role else (),
        boundary=role.boundary if role else None,
        resource=deployed.of_resource(need.resource),
        endpoint=endpoint.policy if endpoint else None,
        needs_resource=_needs_consent(need),
    )
    judgement = judge(access, applied)
    _note(session, access, judgement)
    return access, judgement


def _needs_consent(need: ActionNeed) -> bool:
    """Return True for a role or an existing key: identity policies alone never open one."""
    is_key = need.action.startswith("kms:") and ":key/" in need.resource
    return is_key or need.action.startswith(_ASSUMES)


def _caller(session: RoleSession) -> Caller:
    return Caller(account=ACCOUNT, arn=session.arn, role_arn=session.role_arn, role_id=session.user_id)


def _note(session: RoleSession, access: Access, judgement: Judgement) -> None:
    if judgement.is_allowed:
        record.note_used(session.role, access.action)
        return
    record.note_denied(
        record.Denied(
            caller=session.arn,
            role=session.role,
            action=access.action,
            resource=access.resource,
            reason=refusals.reason(access.action, judgement),
            policy=refusals.policy_to_change(access, judgement),
            statement=refusals.statement(access, judgement),
        )
    )


def _keys(
    session: RoleSession, role: deployed.DeployedRole | None, region: str
) -> dict[str, tuple[str, ...]]:
    """Return the global keys of every request ("AWS global condition context keys")."""
    now = datetime.now(UTC)
    keys = {
        "aws:currenttime": now.isoformat(timespec="seconds"),
        "aws:epochtime": str(int(now.timestamp())),
        "aws:principalaccount": ACCOUNT,
        "aws:principalarn": session.role_arn,
        "aws:principalisawsservice": "false",
        "aws:principaltype": "AssumedRole",
        "aws:requestedregion": region,
        "aws:securetransport": "true",
        "aws:sourceowner": ACCOUNT,
        "aws:userid": session.user_id,
        "aws:viaawsservice": "false",
        **{f"aws:principaltag/{name.lower()}": value for name, value in (role.tags if role else {}).items()},
    }
    if session.instance_arn:
        keys |= {
            "aws:ec2instancesourceprivateipv4": session.address,
            "aws:ec2instancesourcevpc": session.vpc,
            "ec2:roledelivery": "2.0",
            "ec2:sourceinstancearn": session.instance_arn,
        }
    return {name: (value,) for name, value in keys.items()}


def _of_resource(need: ActionNeed) -> Mapping[str, tuple[str, ...]]:
    service = need.action.partition(":")[0]
    keys = {"aws:viaawsservice": ("true",)} if need.via else {}
    if need.resource != "*" and deployed.is_owned(need.resource):
        keys["aws:resourceaccount"] = (ACCOUNT,)
    for name, value in deployed.tags_of(need.resource).items():
        for owner in {"aws", service}:
            keys[f"{owner}:resourcetag/{name.lower()}"] = (value,)
    return keys


def _of_endpoint(
    session: RoleSession, endpoint: deployed.DeployedEndpoint | None
) -> Mapping[str, tuple[str, ...]]:
    if endpoint is None:
        return {"aws:sourceip": (session.address or "127.0.0.1",)}
    return {
        "aws:sourcevpc": (session.vpc,),
        "aws:sourcevpce": (endpoint.id,),
        "aws:vpcsourceip": (session.address,),
    }
