"""KMS: keys and aliases."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    call,
    changeable,
    find,
    mirrored,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response
from slipway.yard.cloudformation.resources.shapes import like


def put_rotation(scope: ResourceScope) -> None:
    if scope.properties.get("EnableKeyRotation"):
        period = scope.properties.get("RotationPeriodInDays")
        scope.send("enable_key_rotation", KeyId=scope.id, RotationPeriodInDays=period)
    else:
        scope.send("disable_key_rotation", KeyId=scope.id)


def put_enabled(scope: ResourceScope) -> None:
    scope.send("enable_key" if scope.properties.get("Enabled", True) else "disable_key", KeyId=scope.id)


def delete_key(scope: ResourceScope) -> None:
    """A key is never gone at once: it waits, as on AWS, and cannot be used meanwhile."""
    state = scope.send("describe_key", KeyId=scope.id)["KeyMetadata"]["KeyState"]
    if state != "PendingDeletion":
        days = scope.properties.get("PendingWindowInDays")
        scope.send("schedule_key_deletion", KeyId=scope.id, PendingWindowInDays=days)


def read_policy(scope: ResourceScope) -> object:
    return like(
        scope.properties["KeyPolicy"],
        scope.send("get_key_policy", KeyId=scope.id, PolicyName="default")["Policy"],
    )


PROVIDERS: Mapping[str, Provider] = {
    "AWS::KMS::Key": ApiResource(
        service="kms",
        create_call=shaped("create_key", renames={"KeyPolicy": "Policy"}),
        identity=response("KeyMetadata.KeyId"),
        describe=find("describe_key", "KeyMetadata", KeyId=ID),
        attributes={"KeyId": ID, "Arn": live("Arn")},
        settings=(
            setting("EnableKeyRotation RotationPeriodInDays", put=put_rotation),
            setting("Enabled", put=put_enabled),
            changeable(
                "KeyPolicy",
                put=call("put_key_policy", KeyId=ID, PolicyName="default", Policy=prop("KeyPolicy")),
            ),
            changeable(
                "Description",
                put=call("update_key_description", KeyId=ID, Description=prop("Description", "")),
            ),
            # Read when the key is deleted, and not before.
            setting("PendingWindowInDays", put=lambda _scope: None),
            tags(KeyId=ID),
        ),
        delete_call=delete_key,
        reads={
            **mirrored("Description Enabled"),
            "KeyPolicy": read_policy,
            "EnableKeyRotation": lambda scope: scope.send("get_key_rotation_status", KeyId=scope.id)[
                "KeyRotationEnabled"
            ],
        },
        accepts=frozenset({"BypassPolicyLockoutSafetyCheck"}),
    ),
    "AWS::KMS::Alias": ApiResource(
        service="kms",
        create_call=shaped("create_alias"),
        identity=prop("AliasName"),
        settings=(
            changeable(
                "TargetKeyId", put=call("update_alias", AliasName=ID, TargetKeyId=prop("TargetKeyId"))
            ),
        ),
        delete_call=call("delete_alias", AliasName=ID),
    ),
}
