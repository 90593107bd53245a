"""IAM: roles, policies, instance profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    call,
    find,
    mirrored,
    setting,
    shaped,
)
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Action,
    Expression,
    ResourceScope,
    live,
    prop,
    response,
)
from slipway.yard.cloudformation.resources.shapes import like
from slipway.yard.cloudformation.resources.tags import tags
from slipway.yard.services.iam.policies import as_iam_writes, versioned


def trust(scope: ResourceScope) -> Any:
    return versioned(scope.properties["AssumeRolePolicyDocument"])


def put_inline(scope: ResourceScope) -> None:
    """A role's own policies: gone ones are deleted, the others written again."""
    policies = {item["PolicyName"]: item["PolicyDocument"] for item in scope.properties.get("Policies") or []}
    for item in scope.before.get("Policies") or []:
        if item["PolicyName"] not in policies:
            scope.send("delete_role_policy", RoleName=scope.id, PolicyName=item["PolicyName"])
    for name, document in policies.items():
        scope.send("put_role_policy", RoleName=scope.id, PolicyName=name, PolicyDocument=versioned(document))


def attach_managed(scope: ResourceScope) -> None:
    wanted = scope.properties.get("ManagedPolicyArns") or []
    had = scope.before.get("ManagedPolicyArns") or []
    for arn in had:
        if arn not in wanted:
            scope.send("detach_role_policy", RoleName=scope.id, PolicyArn=as_iam_writes(scope, arn))
    for arn in wanted:
        if arn not in had:
            scope.send("attach_role_policy", RoleName=scope.id, PolicyArn=as_iam_writes(scope, arn))


def delete_role(scope: ResourceScope) -> None:
    """IAM refuses a role that still has policies. CloudFormation takes its own off; others' keep the role."""
    named = [item["PolicyName"] for item in scope.properties.get("Policies") or []]
    for name in set(named) & set(scope.send("list_role_policies", RoleName=scope.id)["PolicyNames"]):
        scope.send("delete_role_policy", RoleName=scope.id, PolicyName=name)
    attached = scope.send("list_attached_role_policies", RoleName=scope.id)["AttachedPolicies"]
    own = {as_iam_writes(scope, arn) for arn in scope.properties.get("ManagedPolicyArns") or []}
    for policy in attached:
        if policy["PolicyArn"] in own:
            scope.send("detach_role_policy", RoleName=scope.id, PolicyArn=policy["PolicyArn"])
    scope.send("delete_role", RoleName=scope.id)


def read_inline(scope: ResourceScope) -> list[dict[str, Any]]:
    names = scope.send("list_role_policies", RoleName=scope.id)["PolicyNames"]
    own = {item["PolicyName"] for item in scope.properties["Policies"]}
    found = [
        scope.send("get_role_policy", RoleName=scope.id, PolicyName=name) for name in names if name in own
    ]
    return list(like(scope.properties["Policies"], found))


def read_attached(scope: ResourceScope) -> list[str]:
    attached = scope.send("list_attached_role_policies", RoleName=scope.id)["AttachedPolicies"]
    given = scope.properties["ManagedPolicyArns"]
    written = {as_iam_writes(scope, arn): arn for arn in given}
    found = [policy["PolicyArn"] for policy in attached]
    return list(like(given, [written.get(arn, arn) for arn in found]))


def wear_roles(scope: ResourceScope) -> None:
    wanted, had = scope.properties.get("Roles") or [], scope.before.get("Roles") or []
    for role in had:
        if role not in wanted:
            scope.send("remove_role_from_instance_profile", InstanceProfileName=scope.id, RoleName=role)
    for role in wanted:
        if role not in had:
            scope.send("add_role_to_instance_profile", InstanceProfileName=scope.id, RoleName=role)


def delete_profile(scope: ResourceScope) -> None:
    profile = scope.send("get_instance_profile", InstanceProfileName=scope.id)["InstanceProfile"]
    for role in profile["Roles"]:
        scope.send(
            "remove_role_from_instance_profile", InstanceProfileName=scope.id, RoleName=role["RoleName"]
        )
    scope.send("delete_instance_profile", InstanceProfileName=scope.id)


def role_field(operation: str, **parameters: Expression) -> Action:
    return call(operation, RoleName=ID, **parameters)


ROLE = ApiResource(
    service="iam",
    name=Name(property="RoleName", limit=64),
    create_call=shaped("create_role", AssumeRolePolicyDocument=trust),
    identity=prop("RoleName"),
    describe=find("get_role", "Role", RoleName=ID),
    attributes={"Arn": live("Arn"), "RoleId": live("RoleId")},
    settings=(
        setting(
            "AssumeRolePolicyDocument",
            put=role_field("update_assume_role_policy", PolicyDocument=trust),
            on_create=False,
        ),
        setting(
            "Description",
            "MaxSessionDuration",
            put=role_field(
                "update_role",
                Description=prop("Description", ""),
                MaxSessionDuration=prop("MaxSessionDuration", 3600),
            ),
            on_create=False,
        ),
        setting(
            "PermissionsBoundary",
            put=role_field("put_role_permissions_boundary", PermissionsBoundary=prop("PermissionsBoundary")),
            remove=role_field("delete_role_permissions_boundary"),
            on_create=False,
        ),
        setting("Policies", put=put_inline),
        setting("ManagedPolicyArns", put=attach_managed),
        tags("tag_role", "untag_role", RoleName=ID),
    ),
    delete_call=delete_role,
    reads={
        **mirrored("AssumeRolePolicyDocument", "Description", "MaxSessionDuration", "Tags"),
        "PermissionsBoundary": live("PermissionsBoundary.PermissionsBoundaryArn"),
        "Policies": read_inline,
        "ManagedPolicyArns": read_attached,
    },
)

INSTANCE_PROFILE = ApiResource(
    service="iam",
    name=Name(property="InstanceProfileName", limit=128),
    create_call=shaped("create_instance_profile"),
    identity=prop("InstanceProfileName"),
    describe=find("get_instance_profile", "InstanceProfile", InstanceProfileName=ID),
    attributes={"Arn": live("Arn")},
    settings=(setting("Roles", put=wear_roles),),
    delete_call=delete_profile,
    reads={"Roles": lambda scope: [role["RoleName"] for role in scope.live["Roles"]]},
)

SERVICE_LINKED_ROLE = ApiResource(
    service="iam",
    create_call=shaped("create_service_linked_role"),
    identity=response("Role.RoleName"),
    describe=find("get_role", "Role", RoleName=ID),
    attributes={"RoleName": ID, "Arn": live("Arn")},
    settings=(
        setting(
            "Description",
            put=role_field("update_role_description", Description=prop("Description", "")),
            on_create=False,
        ),
    ),
    delete_call=call("delete_service_linked_role", RoleName=ID),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::IAM::Role": ROLE,
    "AWS::IAM::InstanceProfile": INSTANCE_PROFILE,
    "AWS::IAM::ServiceLinkedRole": SERVICE_LINKED_ROLE,
}
