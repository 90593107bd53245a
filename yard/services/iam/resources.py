"""Resource types of IAM: roles, policies, instance profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    generated,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import is_only_recorded
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Action,
    Expression,
    ResourceScope,
    is_gone,
    live,
    prop,
    response,
    tolerating,
)
from slipway.yard.cloudformation.resources.shapes import like

# Policies: inline ones of a role, user or group, and attached managed ones.
MAX_POLICY_VERSIONS = 5
# The principals of a policy: property -> (principal in the API's operations, parameter that names one).
PRINCIPALS = {"Roles": ("role", "RoleName"), "Users": ("user", "UserName"), "Groups": ("group", "GroupName")}


def versioned(document: Any) -> Any:
    """Return the policy with a version, which moto requires and IAM does not."""
    return {"Version": "2012-10-17", **document} if isinstance(document, dict) else document


def as_iam_writes(scope: ResourceScope, arn: str) -> str:
    """Return the policy's ARN in IAM's case: many samples write …EC2RoleForSSM for …EC2RoleforSSM."""
    if found := find("get_policy", "Policy.Arn", PolicyArn=arn)(scope):
        return str(found)
    pages = scope.context.client("iam").get_paginator("list_policies").paginate(Scope="AWS")
    known = {policy["Arn"].lower(): policy["Arn"] for page in pages for policy in page["Policies"]}
    return str(known.get(arn.lower(), arn))


def on_principals(put: str, remove: str, **parameters: Any) -> Action:
    """Return the action that puts a policy on the listed principals, and removes it from former ones.

    Users and groups of stacks are only recorded, and cannot have policies; others of the account can.
    """

    def apply(scope: ResourceScope) -> None:
        for listed, (kind, member) in PRINCIPALS.items():
            for name in scope.removed(listed):
                with tolerating(is_gone):
                    scope.send(remove.format(kind), **{member: name, **parameters, "PolicyDocument": None})
            for name in scope.properties.get(listed) or []:
                if not is_only_recorded(f"AWS::IAM::{kind.title()}", name):
                    scope.send(put.format(kind), **{member: name}, **parameters)

    return apply


def take_off(remove: str, **parameters: Any) -> Action:
    """Return the action that removes the policy from its principals; those may no longer exist."""

    def delete(scope: ResourceScope) -> None:
        for listed, (kind, member) in PRINCIPALS.items():
            for name in scope.properties.get(listed) or []:
                with tolerating(is_gone):
                    scope.send(remove.format(kind), **{member: name}, **parameters)

    return delete


def put_policy(scope: ResourceScope) -> None:
    """Put an inline policy; first remove a renamed one under its old name."""
    old, new = scope.before.get("PolicyName"), scope.properties["PolicyName"]
    if old and old != new:
        take_off("delete_{}_policy", PolicyName=old)(replace(scope, properties=scope.before))
    on_principals(
        "put_{}_policy",
        "delete_{}_policy",
        PolicyName=new,
        PolicyDocument=versioned(scope.properties["PolicyDocument"]),
    )(scope)


def new_policy_version(scope: ResourceScope) -> None:
    """Make a new version; CloudFormation deletes the oldest of the five that IAM keeps."""
    versions = scope.send("list_policy_versions", PolicyArn=scope.id)["Versions"]
    spare = [item["VersionId"] for item in versions if not item["IsDefaultVersion"]]
    if len(versions) == MAX_POLICY_VERSIONS:
        oldest = min(spare, key=lambda version: int(version.removeprefix("v")))
        scope.send("delete_policy_version", PolicyArn=scope.id, VersionId=oldest)
    document = versioned(scope.properties["PolicyDocument"])
    scope.send("create_policy_version", PolicyArn=scope.id, PolicyDocument=document, SetAsDefault=True)


def delete_managed(scope: ResourceScope) -> None:
    take_off("detach_{}_policy", PolicyArn=scope.id)(scope)
    for version in scope.send("list_policy_versions", PolicyArn=scope.id)["Versions"]:
        if not version["IsDefaultVersion"]:
            scope.send("delete_policy_version", PolicyArn=scope.id, VersionId=version["VersionId"])
    scope.send("delete_policy", PolicyArn=scope.id)


def trust(scope: ResourceScope) -> Any:
    return versioned(scope.properties["AssumeRolePolicyDocument"])


def put_inline(scope: ResourceScope) -> None:
    """Write a role's inline policies again, and delete those that are no longer listed."""
    policies = {item["PolicyName"]: item["PolicyDocument"] for item in scope.properties.get("Policies") or []}
    for item in scope.before.get("Policies") or []:
        if item["PolicyName"] not in policies:
            scope.send("delete_role_policy", RoleName=scope.id, PolicyName=item["PolicyName"])
    for name, document in policies.items():
        scope.send("put_role_policy", RoleName=scope.id, PolicyName=name, PolicyDocument=versioned(document))


def attach_managed(scope: ResourceScope) -> None:
    for arn in scope.removed("ManagedPolicyArns"):
        scope.send("detach_role_policy", RoleName=scope.id, PolicyArn=as_iam_writes(scope, arn))
    for arn in scope.added("ManagedPolicyArns"):
        scope.send("attach_role_policy", RoleName=scope.id, PolicyArn=as_iam_writes(scope, arn))


def delete_role(scope: ResourceScope) -> None:
    """Delete the role after the template's own policies; IAM refuses it if others are left."""
    named = [item["PolicyName"] for item in scope.properties.get("Policies") or []]
    for name in set(named) & set(scope.send("list_role_policies", RoleName=scope.id)["PolicyNames"]):
        scope.send("delete_role_policy", RoleName=scope.id, PolicyName=name)
    attached = scope.send("list_attached_role_policies", RoleName=scope.id)["AttachedPolicies"]
    of_template = {as_iam_writes(scope, arn) for arn in scope.properties.get("ManagedPolicyArns") or []}
    for policy in attached:
        if policy["PolicyArn"] in of_template:
            scope.send("detach_role_policy", RoleName=scope.id, PolicyArn=policy["PolicyArn"])
    scope.send("delete_role", RoleName=scope.id)


def read_inline(scope: ResourceScope) -> list[dict[str, Any]]:
    names = scope.send("list_role_policies", RoleName=scope.id)["PolicyNames"]
    declared = {item["PolicyName"] for item in scope.properties["Policies"]}
    found = [
        scope.send("get_role_policy", RoleName=scope.id, PolicyName=name)
        for name in names
        if name in declared
    ]
    return list(like(scope.properties["Policies"], found))


def read_attached(scope: ResourceScope) -> list[str]:
    attached = scope.send("list_attached_role_policies", RoleName=scope.id)["AttachedPolicies"]
    given = scope.properties["ManagedPolicyArns"]
    written = {as_iam_writes(scope, arn): arn for arn in given}
    found = [policy["PolicyArn"] for policy in attached]
    return list(like(given, [written.get(arn, arn) for arn in found]))


def wear_roles(scope: ResourceScope) -> None:
    for role in scope.removed("Roles"):
        scope.send("remove_role_from_instance_profile", InstanceProfileName=scope.id, RoleName=role)
    for role in scope.added("Roles"):
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


PROVIDERS: Mapping[str, Provider] = {
    "AWS::IAM::Policy": ApiResource(
        service="iam",
        identity=lambda scope: generated(scope.context, 128),
        attributes={"Id": ID},
        settings=(setting("PolicyName PolicyDocument Roles Users Groups", put=put_policy),),
        delete_call=lambda scope: take_off("delete_{}_policy", PolicyName=scope.properties["PolicyName"])(
            scope
        ),
    ),
    "AWS::IAM::ManagedPolicy": ApiResource(
        service="iam",
        name=Name(property="ManagedPolicyName", limit=128),
        create_call=shaped(
            "create_policy",
            renames={"ManagedPolicyName": "PolicyName"},
            PolicyDocument=lambda scope: versioned(scope.properties["PolicyDocument"]),
        ),
        identity=response("Policy.Arn"),
        describe=find("get_policy", "Policy", PolicyArn=ID),
        attributes={
            "PolicyArn": ID,
            "PolicyId": live("PolicyId"),
            "AttachmentCount": live("AttachmentCount"),
            "PermissionsBoundaryUsageCount": live("PermissionsBoundaryUsageCount", 0),
            "DefaultVersionId": live("DefaultVersionId"),
            "IsAttachable": live("IsAttachable"),
            "CreateDate": lambda scope: str(scope.live["CreateDate"]),
            "UpdateDate": lambda scope: str(scope.live["UpdateDate"]),
        },
        settings=(
            changeable("PolicyDocument", put=new_policy_version),
            setting(
                " ".join(PRINCIPALS),
                put=lambda scope: on_principals("attach_{}_policy", "detach_{}_policy", PolicyArn=scope.id)(
                    scope
                ),
            ),
        ),
        delete_call=delete_managed,
    ),
    "AWS::IAM::RolePolicy": ApiResource(
        service="iam",
        identity=lambda scope: f"{scope.properties['PolicyName']}|{scope.properties['RoleName']}",
        settings=(
            setting(
                "PolicyDocument PolicyName RoleName",
                put=shaped(
                    "put_role_policy",
                    PolicyDocument=lambda scope: versioned(scope.properties.get("PolicyDocument")),
                ),
            ),
        ),
        delete_call=shaped("delete_role_policy"),
    ),
    "AWS::IAM::Role": ApiResource(
        service="iam",
        name=Name(property="RoleName", limit=64),
        create_call=shaped("create_role", AssumeRolePolicyDocument=trust),
        describe=find("get_role", "Role", RoleName=ID),
        attributes={"Arn": live("Arn"), "RoleId": live("RoleId")},
        settings=(
            changeable(
                "AssumeRolePolicyDocument", put=role_field("update_assume_role_policy", PolicyDocument=trust)
            ),
            changeable(
                "Description MaxSessionDuration",
                put=role_field(
                    "update_role",
                    Description=prop("Description", ""),
                    MaxSessionDuration=prop("MaxSessionDuration", 3600),
                ),
            ),
            changeable(
                "PermissionsBoundary",
                put=shaped("put_role_permissions_boundary", RoleName=ID),
                remove=role_field("delete_role_permissions_boundary"),
            ),
            setting("Policies", put=put_inline),
            setting("ManagedPolicyArns", put=attach_managed),
            tags("tag_role", "untag_role", RoleName=ID),
        ),
        delete_call=delete_role,
        reads={
            **mirrored("AssumeRolePolicyDocument Description MaxSessionDuration Tags"),
            "PermissionsBoundary": live("PermissionsBoundary.PermissionsBoundaryArn"),
            "Policies": read_inline,
            "ManagedPolicyArns": read_attached,
        },
    ),
    "AWS::IAM::InstanceProfile": ApiResource(
        service="iam",
        name=Name(property="InstanceProfileName", limit=128),
        create_call=shaped("create_instance_profile"),
        describe=find("get_instance_profile", "InstanceProfile", InstanceProfileName=ID),
        attributes={"Arn": live("Arn")},
        settings=(setting("Roles", put=wear_roles),),
        delete_call=delete_profile,
        reads={"Roles": lambda scope: [role["RoleName"] for role in scope.live["Roles"]]},
    ),
    "AWS::IAM::ServiceLinkedRole": ApiResource(
        service="iam",
        create_call=shaped("create_service_linked_role"),
        identity=response("Role.RoleName"),
        describe=find("get_role", "Role", RoleName=ID),
        attributes={"RoleName": ID, "Arn": live("Arn")},
        settings=(
            changeable(
                "Description", put=role_field("update_role_description", Description=prop("Description", ""))
            ),
        ),
        delete_call=call("delete_service_linked_role", RoleName=ID),
    ),
}
