"""Judges a whole call of a role: checks and counts every need, and refuses in AWS's words.

NOT_JUDGED is the list of all that is allowed or ignored without a judgement; `slipway yard status` shows it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.permissions import deployed
from slipway.yard.permissions.calls.arns import prefix
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, NotJudged
from slipway.yard.permissions.calls.needs import needs
from slipway.yard.permissions.conditions import is_like
from slipway.yard.permissions.evaluation import Access, AppliedPolicies, Judgement, PolicyKind, judge
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.permissions.policies import Caller, decode

NOT_JUDGED = (
    "your own key, unless `slipway yard up --caller-role` gives it a role",
    "a stack without an execution role: it is made with all permissions, whoever asks for it",
    "CloudFormation's role, for types that are only recorded: the action that makes them, on some resource",
    "policies of organizations (SCP, RCP), session policies, grants of KMS, ACLs of S3",
    "other accounts: the yard has one",
    "resources of a call that no table names: such a call is judged on the resource *",
    "condition keys that the yard cannot fill: they count as absent from the request",
    "hosts without a role: they answer Systems Manager, as with Default Host Management Configuration",
    "S3's DeleteObjects: refused as a whole where AWS refuses single keys",
    "mounts: EFS's policies and the rights to mount; a host mounts whatever it names",
    "TLS: requests count as if they had come over it",
)
_EVERYTHING = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
# Action prefix -> name of the service's VPC endpoint, where they differ.
_ENDPOINT_NAMES = {"cloudwatch": "monitoring"}
_ASSUMES = "sts:AssumeRole"


def check(session: RoleSession, call: AskedCall, protocol: str, among: Collection[str] = ()) -> None:
    """Raise ApiError for the first thing that the session's role may not do.

    `among`: patterns of the only actions to judge; empty: all actions.
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
            raise error(call.service, protocol, words(access, judgement))


def trusts_account(role: deployed.DeployedRole) -> bool:
    """Return True if an administrator of the account may assume the role."""
    caller = Caller(account=ACCOUNT, arn=f"arn:aws:iam::{ACCOUNT}:root")
    everything = decode("administrator", _EVERYTHING)
    access = Access(caller=caller, action="sts:AssumeRole", resource=role.arn)
    return judge(
        access, AppliedPolicies(identity=(everything,), resource=role.trust, needs_resource=True)
    ).is_allowed


def judged(session: RoleSession, need: ActionNeed, region: str) -> tuple[Access, Judgement]:
    """Judge one need and record the result."""
    role = deployed.role(session.role_arn)
    service = need.action.partition(":")[0]
    endpoint = (
        deployed.endpoint(session.vpc, region, _ENDPOINT_NAMES.get(service, service))
        if session.vpc and not need.via
        else None
    )
    access = Access(
        caller=Caller(account=ACCOUNT, arn=session.arn, role_arn=session.role_arn, role_id=session.user_id),
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
    """Return True for a role or an existing KMS key: identity policies alone never allow access to one."""
    is_key = need.action.startswith("kms:") and ":key/" in need.resource
    return is_key or need.action.startswith(_ASSUMES)


def _note(session: RoleSession, access: Access, judgement: Judgement) -> None:
    if judgement.is_allowed:
        note_used(session.role, access.action)
        return
    note_denied(
        Denied(
            caller=session.arn,
            role=session.role,
            action=access.action,
            resource=access.resource,
            reason=reason(access.action, judgement),
            policy=policy_to_change(access, judgement),
            statement=statement(access, judgement),
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


# Refusals in AWS's words, with the service's error code, and the statement that would allow the action.
# Sources: IAM user guide, "Troubleshoot access denied error messages"; the errors of each service's API.
# Protocol, or a service that differs -> (code, HTTP status).
_BY_PROTOCOL: Mapping[str, tuple[str, int]] = {
    "ec2": ("UnauthorizedOperation", 403),
    "json": ("AccessDeniedException", 400),
    "query": ("AccessDenied", 403),
    "rest-json": ("AccessDeniedException", 403),
    "rest-xml": ("AccessDenied", 403),
}
_BY_SERVICE: Mapping[str, tuple[str, int]] = {
    "cloudwatch": ("AccessDenied", 403),
    "sns": ("AuthorizationError", 403),
}
_EC2_WORDS = "You are not authorized to perform this operation. "


def error(service: str, protocol: str, message: str) -> ApiError:
    code, status = _BY_SERVICE.get(service) or _BY_PROTOCOL.get(protocol, ("AccessDenied", 403))
    return ApiError(code, (_EC2_WORDS if service == "ec2" else "") + message, status=status)


def words(access: Access, judgement: Judgement) -> str:
    """Return AWS's message: who may not do what, and which kind of policy refused it."""
    resource = f'"{access.resource}"' if access.action.startswith("s3:") else access.resource
    on = "" if access.resource == "*" and access.action.startswith("ec2:") else f" on resource: {resource}"
    return (
        f"User: {access.caller.words} is not authorized to perform: {access.action}{on} "
        f"{reason(access.action, judgement)}"
    )


def reason(action: str, judgement: Judgement) -> str:
    assert judgement.kind, "a refusal has a kind of policy that refused"
    if judgement.denied_by:
        article = "an" if judgement.kind is PolicyKind.IDENTITY else "a"
        return f"with an explicit deny in {article} {judgement.kind.value}"
    return f"because no {judgement.kind.value} allows the {action} action"


def policy_to_change(access: Access, judgement: Judgement) -> str:
    """Name the policy that has to change for this action to be allowed."""
    if judgement.denied_by:
        return f"{judgement.denied_by}: narrow or remove the deny"
    places = {
        PolicyKind.IDENTITY: f"a policy of {access.caller.role_arn}",
        PolicyKind.RESOURCE: f"the policy of {access.resource}",
        PolicyKind.BOUNDARY: f"the permissions boundary of {access.caller.role_arn}",
        PolicyKind.ENDPOINT: "the policy of the VPC endpoint",
    }
    assert judgement.kind
    return places[judgement.kind]


def statement(access: Access, judgement: Judgement) -> dict[str, object]:
    """Return the statement that would allow the access; {} for an explicit deny, which none can undo."""
    if judgement.denied_by:
        return {}
    allow: dict[str, object] = {"Effect": "Allow", "Action": access.action, "Resource": access.resource}
    if judgement.kind is PolicyKind.RESOURCE:
        caller = access.caller
        principal = {"Service": caller.service} if caller.service else {"AWS": caller.role_arn}
        return {**allow, "Principal": principal}
    return {**allow, "Principal": "*"} if judgement.kind is PolicyKind.ENDPOINT else allow


# What roles were refused since the yard started, and which allowed actions they used.


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """An action that was refused; `statement`, added to `policy`, would allow it."""

    caller: str
    role: str  # or a service that acted on its own
    action: str
    resource: str
    reason: str
    policy: str
    statement: Mapping[str, object]


_lock = threading.Lock()
# (role, action, resource, reason) -> the latest refusal, how many there were, and when
_denied: dict[tuple[str, str, str, str], tuple[Denied, int, float]] = {}
_used: Counter[tuple[str, str]] = Counter()


def note_denied(denied: Denied) -> None:
    key = (denied.role, denied.action, denied.resource, denied.reason)
    with _lock:
        times = _denied[key][1] if key in _denied else 0
        _denied[key] = (denied, times + 1, time.time())


def note_used(role: str, action: str) -> None:
    with _lock:
        _used[role, action] += 1


def denied() -> list[dict[str, object]]:
    """List refusals, the latest last."""
    with _lock:
        rows = sorted(_denied.values(), key=lambda row: row[2])
    return [{**asdict(one), "times": times} for one, times, _ in rows]


def used(role: str) -> dict[str, int]:
    """Return action -> how often the role used it."""
    with _lock:
        return {action: times for (owner, action), times in _used.items() if owner == role}


def reset() -> None:
    with _lock:
        _denied.clear()
        _used.clear()
