"""CloudFormation's execution role: a stack's role must allow every call that is made for the stack.

A call of a provider here is judged only if CloudFormation's own handler makes it, too: the permissions in the
type's schema say so. A stack without a role has all permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Fidelity
from slipway.yard.cloudformation.resources.registry import fidelities
from slipway.yard.cloudformation.template import schemas
from slipway.yard.cloudformation.template.parameters import Lookups
from slipway.yard.errors import ApiError, validation_error
from slipway.yard.permissions import deployed, judging, roles
from slipway.yard.permissions.calls.asked import ANY_RESOURCE, ActionNeed, AskedCall
from slipway.yard.permissions.conditions import is_like
from slipway.yard.permissions.keys import RoleSession

PRINCIPAL = "cloudformation.amazonaws.com"
SESSION = "AWSCloudFormation"  # as AWS names it
CUSTOM_TYPES = ("Custom::", "AWS::CloudFormation::CustomResource")
_READS = ("describe", "get", "list")


def assumed(role_arn: str) -> RoleSession:
    """Return CloudFormation's session with the role; raise ValidationError if it cannot assume the role."""
    try:
        return roles.assume(role_arn, PRINCIPAL, SESSION)
    except ApiError as error:
        raise validation_error(f"Role {role_arn} is invalid or cannot be assumed") from error


def check(context: Context, service: str, protocol: str, operation: str, given: Mapping[str, Any]) -> None:
    """Raise ApiError in the service's own words if the stack's role does not allow this call."""
    if not context.role_arn:
        return
    call = AskedCall(service=service, operation=operation, region=context.region, parameters=given)
    judging.check(assumed(context.role_arn), call, protocol, among=schemas.permissions(context.resource_type))


def begun(context: Context, verb: str, properties: Mapping[str, Any]) -> Context:
    """Judge actions for which the yard makes no call, and return the context for the provider's work.

    A custom resource's function works with its own role; the stack's role only has to allow invoking it.
    """
    if not context.role_arn:
        return context
    if context.resource_type.startswith(CUSTOM_TYPES):
        function = str(properties.get("ServiceToken", ANY_RESOURCE))
        _judge(context, ActionNeed(action="lambda:InvokeFunction", resource=function))
        return replace(context, role_arn="")
    if fidelities().get(context.resource_type) is Fidelity.RECORDED:
        for action in _stated(context.resource_type, verb):
            _judge(context, ActionNeed(action=action, resource=_somewhere(context, action)))
    return context


def _stated(kind: str, verb: str) -> list[str]:
    """List the actions that make, change or delete such a resource, for example athena:CreateWorkGroup."""
    name = kind.rpartition("::")[2].lower()
    return sorted(
        action
        for action in schemas.permissions(kind, verb)
        if (word := action.partition(":")[2].lower()).endswith(name) and not word.startswith(_READS)
    )


def _somewhere(context: Context, action: str) -> str:
    """Return a resource on which the role allows the action: the yard does not know the ARN of this one."""
    role = deployed.role(context.role_arn)
    for policy in role.identity if role else ():
        for statement in policy.statements:
            covered = any(is_like(pattern.lower(), action.lower()) for pattern in statement.actions)
            if statement.is_allow and covered and statement.resources and not statement.is_not_resource:
                return statement.resources[0]
    return ANY_RESOURCE


def _judge(context: Context, need: ActionNeed) -> None:
    access, judgement = judging.judged(assumed(context.role_arn), need, context.region)
    if not judgement.is_allowed:
        service = need.action.partition(":")[0]
        raise judging.error(service, "rest-json", judging.words(access, judgement))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLookups:
    """Looks up what a template asks of the account, as far as the stack's role may read it."""

    lookups: Lookups
    region: str
    role_arn: str

    def parameter(self, name: str) -> str:
        without_version = name if name.startswith("arn:") else name.partition(":")[0]
        self._check("ssm", "GetParameters", Names=[without_version])
        return self.lookups.parameter(name)

    def secret(self, name: str, stage: str, version: str) -> str:
        self._check("secretsmanager", "GetSecretValue", SecretId=name)
        return self.lookups.secret(name, stage, version)

    def availability_zones(self, region: str) -> tuple[str, ...]:
        return self.lookups.availability_zones(region)

    def stored_object(self, bucket: str, key: str, version: str | None) -> bytes:
        """Fetch a template; this uses the caller's permissions, not the role's."""
        return self.lookups.stored_object(bucket, key, version)

    def stack_output(self, stack: str, output: str, region: str | None) -> str:
        return self.lookups.stack_output(stack, output, region)

    def _check(self, service: str, operation: str, **parameters: Any) -> None:
        call = AskedCall(service=service, operation=operation, region=self.region, parameters=parameters)
        try:
            judging.check(assumed(self.role_arn), call, "json")
        except ApiError as error:
            raise validation_error(error.message) from error


def lookups_of(lookups: Lookups, region: str, role_arn: str | None) -> Lookups:
    """Return the lookups of a stack with this role."""
    return JudgedLookups(lookups=lookups, region=region, role_arn=role_arn) if role_arn else lookups
