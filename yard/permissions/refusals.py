"""A refusal in AWS's words, with AWS's code for the service, and the statement that would allow the action.

Sources: IAM user guide, "Troubleshoot access denied error messages"; the errors of each service's API.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.errors import ApiError
from slipway.yard.permissions.callers import Caller
from slipway.yard.permissions.evaluation import Access, Judgement, PolicyKind

# By protocol, and for services that say it otherwise: code and HTTP status.
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
_ARTICLES: Mapping[PolicyKind, str] = {
    PolicyKind.IDENTITY: "an",
    PolicyKind.RESOURCE: "a",
    PolicyKind.BOUNDARY: "a",
    PolicyKind.ENDPOINT: "a",
}


def error(service: str, protocol: str, message: str) -> ApiError:
    code, status = _BY_SERVICE.get(service) or _BY_PROTOCOL.get(protocol, ("AccessDenied", 403))
    return ApiError(code, (_EC2_WORDS if service == "ec2" else "") + message, status=status)


def words(access: Access, judgement: Judgement) -> str:
    """Say who may not do what, and which kind of policy is why."""
    resource = f'"{access.resource}"' if access.action.startswith("s3:") else access.resource
    on = "" if access.resource == "*" and access.action.startswith("ec2:") else f" on resource: {resource}"
    return (
        f"User: {access.caller.words} is not authorized to perform: {access.action}{on} "
        f"{reason(access.action, judgement)}"
    )


def reason(action: str, judgement: Judgement) -> str:
    assert judgement.kind, "a refusal has a kind of policy that refused"
    if judgement.denied_by:
        return f"with an explicit deny in {_ARTICLES[judgement.kind]} {judgement.kind.value}"
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
    """Return the statement that would allow it; {} for an explicit deny, which no statement undoes."""
    if judgement.denied_by:
        return {}
    allow: dict[str, object] = {"Effect": "Allow", "Action": access.action, "Resource": access.resource}
    if judgement.kind is PolicyKind.RESOURCE:
        return {**allow, "Principal": _principal(access.caller)}
    return {**allow, "Principal": "*"} if judgement.kind is PolicyKind.ENDPOINT else allow


def _principal(caller: Caller) -> Mapping[str, str]:
    return {"Service": caller.service} if caller.service else {"AWS": caller.role_arn}
