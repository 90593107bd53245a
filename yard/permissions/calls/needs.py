"""Finds all that a call needs: its action on each resource, the use of keys on its behalf, roles it passes.

Most follows from AWS's reference and from the parameters. For a service with its own rules: a line of _OWN;
for an operation whose action has another name: one of ACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.errors import texts
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions.calls import ec2, encrypted, s3
from slipway.yard.permissions.calls.arns import SOME_ID, named, prefix, resource_types
from slipway.yard.permissions.calls.asked import ActionNeed, AskedCall, NotJudged, arn, found
from slipway.yard.permissions.calls.ec2 import value_keys

# These need no permission (STS API reference).
FREE = frozenset({("sts", "GetCallerIdentity"), ("sts", "GetSessionToken")})
ACTIONS: Mapping[tuple[str, str], str] = {
    ("budgets", "CreateBudget"): "budgets:ModifyBudget",
    ("budgets", "DeleteBudget"): "budgets:ModifyBudget",
    ("budgets", "DescribeBudget"): "budgets:ViewBudget",
    ("budgets", "DescribeBudgets"): "budgets:ViewBudget",
    ("budgets", "UpdateBudget"): "budgets:ModifyBudget",
    ("lambda", "Invoke"): "lambda:InvokeFunction",
}
# Operations with these prefixes may name no resource, and then need the action on "*".
_SEARCHES = ("Describe", "Get", "List", "Search", "Filter")
_OWN: Mapping[str, Callable[[AskedCall], Iterator[ActionNeed]]] = {"ec2": ec2.needs, "s3": s3.needs}
# Calls whose tags need an action of their own, on resources of these types: SageMaker's developer guide,
# "Provide permissions for tagging SageMaker AI resources"; a refusal of AWS Batch's names a job definition.
# That it asks for the job, too, is remembered and not documented.
_TAGGING: Mapping[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("batch", "RegisterJobDefinition"): ("batch:TagResource", ("job-definition",)),
    ("batch", "SubmitJob"): ("batch:TagResource", ("job", "job-definition")),
    ("sagemaker", "CreateTrainingJob"): ("sagemaker:AddTags", ("training-job",)),
}


def needs(call: AskedCall) -> tuple[ActionNeed, ...]:
    """Return everything that the call needs; raise NotJudged if the tables do not say."""
    if (call.service, call.operation) in FREE:
        return ()
    direct = _OWN.get(call.service, _of_reference)(call)
    besides = _BESIDES.get((call.service, call.operation))
    further = besides(call) if besides else ()
    return (*direct, *further, *_tagging(call), *encrypted.needs(call), *passed_roles(call))


def _tagging(call: AskedCall) -> Iterator[ActionNeed]:
    action, kinds = _TAGGING.get((call.service, call.operation), ("", ()))
    if call.parameters.get("tags") or call.parameters.get("Tags"):
        for kind in kinds:
            for tagged in named(call, call.service, kind) or [arn(call.service, call.region, f"{kind}/*")]:
                yield ActionNeed(action=action, resource=tagged, keys=value_keys(call, call.service))


def _all_stacks(call: AskedCall) -> Iterator[ActionNeed]:
    """Find what DescribeStacks needs without a stack's name (CloudFormation API reference)."""
    if not call.parameters.get("StackName"):
        yield ActionNeed(action="cloudformation:ListStacks")


def _stream(call: AskedCall) -> Iterator[ActionNeed]:
    """Find what the plugin needs, which signs the opening of a session's stream since its 1.2.764.

    AWS supports no older one, and its sample policies for Session Manager allow this (user guide).
    """
    session = arn("ssm", call.region, f"session/{call.user_id}-{SOME_ID}")
    yield ActionNeed(action="ssmmessages:OpenDataChannel", resource=session)


_BESIDES: Mapping[tuple[str, str], Callable[[AskedCall], Iterator[ActionNeed]]] = {
    ("cloudformation", "DescribeStacks"): _all_stacks,
    ("ssm", "StartSession"): _stream,
}


def _of_reference(call: AskedCall) -> Iterator[ActionNeed]:
    action_prefix = prefix(call.service)
    action = ACTIONS.get((call.service, call.operation), f"{action_prefix}:{call.operation}")
    types = resource_types(action)
    if types is None:
        raise NotJudged
    keys = value_keys(call, action_prefix)
    resources = list(dict.fromkeys(arn for kind in types for arn in named(call, action_prefix, kind)))
    # AWS checks "*" or the type's pattern if the resource is not made yet and has no name.
    is_create = call.operation.startswith(("Create", "Register", "Send")) and not found(
        call.parameters, "Name"
    )
    if not resources and types and not call.operation.startswith(_SEARCHES) and not is_create:
        raise NotJudged
    for resource in resources or ["*"]:
        yield ActionNeed(action=action, resource=resource, keys=keys)


# Roles that a call passes to a service: each needs iam:PassRole, with iam:PassedToService.
# To add one: the parameter's name in _ROLES; if the role is for another service, a row of _PASSED_TO.
_ROLES = frozenset(
    {
        "executionrole",
        "executionrolearn",
        "jobrolearn",
        "rolearn",
        "servicerole",
        "servicerolearn",
        "taskrolearn",
    }
)
_PROFILES = frozenset({"iaminstanceprofilearn", "instanceprofilename", "instancerole"})
# Roles for another service than the called one: (called service, parameter) -> service.
_PASSED_TO: Mapping[tuple[str, str], str] = {
    ("batch", "executionrolearn"): "ecs-tasks",
    ("batch", "jobrolearn"): "ecs-tasks",
    ("ecs", "executionrolearn"): "ecs-tasks",
    ("ecs", "taskrolearn"): "ecs-tasks",
    ("elasticfilesystem", "rolearn"): "elasticfilesystem",
}
# Parameters that mean a role only in one service: (service, parameter).
_ROLES_OF = frozenset({("lambda", "role")})
# Services whose calls name a role without passing it.
_NO_PASSING = frozenset({"iam", "sts"})


def passed_roles(call: AskedCall) -> Iterator[ActionNeed]:
    if call.service in _NO_PASSING:
        return
    profile = call.parameters.get("IamInstanceProfile")  # EC2's form, with an Arn or a Name
    for _, value in texts(profile):
        yield from _of_profile(value)
    for name, value in texts({key: item for key, item in call.parameters.items() if item is not profile}):
        lowered = name.lower()
        if lowered in _PROFILES:
            yield from _of_profile(value)
        elif (
            lowered in _ROLES or (call.service, lowered) in _ROLES_OF
        ) and "/aws-service-role/" not in value:
            to = _PASSED_TO.get((call.service, lowered), call.service)
            yield _pass(value, f"{to}.amazonaws.com")


def _of_profile(name_or_arn: str) -> Iterator[ActionNeed]:
    profiles: Any = moto_backend("iam").instance_profiles
    for profile in list(profiles.values()):
        if name_or_arn in (profile.name, profile.arn):
            yield from (_pass(role.arn, "ec2.amazonaws.com") for role in profile.roles)


def _pass(role: str, service: str) -> ActionNeed:
    resource = role if role.startswith("arn:") else arn("iam", "", f"role/{role}")
    return ActionNeed(action="iam:PassRole", resource=resource, keys={"iam:passedtoservice": (service,)})
