"""IAM's users and groups, their keys, and a role's policy as a resource of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, setting, shaped
from slipway.yard.cloudformation.resources.names import Name
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, Action, ResourceScope, live, prop, response
from slipway.yard.cloudformation.resources.tags import tags
from slipway.yard.services.iam.policies import as_iam_writes, versioned


def inline_of(kind: str, member: str) -> Action:
    """Write the policies that stand in a user or a group, and delete those that no longer do."""

    def put(scope: ResourceScope) -> None:
        now, before = _documents(scope.properties), _documents(scope.before)
        for name in before.keys() - now.keys():
            scope.send(f"delete_{kind}_policy", **{member: scope.id}, PolicyName=name)
        for name, document in now.items():
            scope.send(f"put_{kind}_policy", **{member: scope.id}, PolicyName=name, PolicyDocument=document)

    return put


def attached_to(kind: str, member: str) -> Action:
    def put(scope: ResourceScope) -> None:
        now = scope.properties.get("ManagedPolicyArns") or []
        before = scope.before.get("ManagedPolicyArns") or []
        for verb, arns in (
            ("detach", [one for one in before if one not in now]),
            ("attach", [one for one in now if one not in before]),
        ):
            for arn in arns:
                scope.send(f"{verb}_{kind}_policy", **{member: scope.id}, PolicyArn=as_iam_writes(scope, arn))

    return put


def join_groups(scope: ResourceScope) -> None:
    now, before = scope.properties.get("Groups") or [], scope.before.get("Groups") or []
    for group in before:
        if group not in now:
            scope.send("remove_user_from_group", UserName=scope.id, GroupName=group)
    for group in now:
        if group not in before:
            scope.send("add_user_to_group", UserName=scope.id, GroupName=group)


def emptied(kind: str, member: str) -> Action:
    """IAM deletes a user or a group only once nothing hangs on it; CloudFormation takes off its own."""

    def delete(scope: ResourceScope) -> None:
        bare = ResourceScope(
            context=scope.context, service=scope.service, id=scope.id, before=scope.properties
        )
        inline_of(kind, member)(bare)
        attached_to(kind, member)(bare)
        if kind == "user":
            join_groups(bare)
            if scope.properties.get("LoginProfile"):
                scope.send("delete_login_profile", UserName=scope.id)
        scope.send(f"delete_{kind}", **{member: scope.id})

    return delete


def put_role_policy(scope: ResourceScope) -> None:
    given = scope.properties
    scope.send(
        "put_role_policy",
        RoleName=given["RoleName"],
        PolicyName=given["PolicyName"],
        PolicyDocument=versioned(given.get("PolicyDocument")),
    )


def join(scope: ResourceScope) -> None:
    for user in scope.properties["Users"]:
        scope.send("add_user_to_group", UserName=user, GroupName=scope.properties["GroupName"])


def leave(scope: ResourceScope) -> None:
    for user in scope.properties["Users"]:
        scope.send("remove_user_from_group", UserName=user, GroupName=scope.properties["GroupName"])


def _documents(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {one["PolicyName"]: versioned(one["PolicyDocument"]) for one in properties.get("Policies") or ()}


USER = ApiResource(
    service="iam",
    name=Name(property="UserName", limit=64),
    create_call=shaped("create_user"),
    identity=prop("UserName"),
    describe=find("get_user", "User", UserName=ID),
    attributes={"Arn": live("Arn")},
    settings=(
        setting("Groups", put=join_groups),
        setting("Policies", put=inline_of("user", "UserName")),
        setting("ManagedPolicyArns", put=attached_to("user", "UserName")),
        setting(
            "LoginProfile",
            put=lambda scope: scope.send(
                "create_login_profile", UserName=scope.id, **scope.properties["LoginProfile"]
            ),
        ),
        tags("tag_user", "untag_user", UserName=ID),
    ),
    delete_call=emptied("user", "UserName"),
)

GROUP = ApiResource(
    service="iam",
    name=Name(property="GroupName", limit=128),
    create_call=shaped("create_group"),
    identity=prop("GroupName"),
    describe=find("get_group", "Group", GroupName=ID),
    attributes={"Arn": live("Arn")},
    settings=(
        setting("Policies", put=inline_of("group", "GroupName")),
        setting("ManagedPolicyArns", put=attached_to("group", "GroupName")),
    ),
    delete_call=emptied("group", "GroupName"),
)

MEMBERSHIP = ApiResource(
    service="iam",
    create_call=lambda _scope: {},
    identity=lambda scope: scope.context.default_name,
    attributes={"Id": ID},
    settings=(setting("Users", "GroupName", put=join),),
    delete_call=leave,
)

ACCESS_KEY = ApiResource(
    service="iam",
    create_call=call("create_access_key", UserName=prop("UserName")),
    identity=response("AccessKey.AccessKeyId"),
    attributes={"Id": ID, "SecretAccessKey": response("AccessKey.SecretAccessKey")},
    settings=(
        setting(
            "Status",
            put=call(
                "update_access_key",
                UserName=prop("UserName"),
                AccessKeyId=ID,
                Status=prop("Status", "Active"),
            ),
        ),
    ),
    delete_call=call("delete_access_key", UserName=prop("UserName"), AccessKeyId=ID),
    accepts=frozenset({"Serial", "UserName"}),
)

ROLE_POLICY = ApiResource(
    service="iam",
    create_call=lambda _scope: {},
    identity=lambda scope: f"{scope.properties['PolicyName']}|{scope.properties['RoleName']}",
    settings=(setting("PolicyDocument", "PolicyName", "RoleName", put=put_role_policy),),
    delete_call=call("delete_role_policy", RoleName=prop("RoleName"), PolicyName=prop("PolicyName")),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::IAM::User": USER,
    "AWS::IAM::Group": GROUP,
    "AWS::IAM::UserToGroupAddition": MEMBERSHIP,
    "AWS::IAM::AccessKey": ACCESS_KEY,
    "AWS::IAM::RolePolicy": ROLE_POLICY,
}
