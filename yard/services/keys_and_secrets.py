"""Resource types of KMS (keys, aliases) and Secrets Manager (secrets, policies)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
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
    """Schedule the deletion of a key, which cannot be used meanwhile: KMS never deletes one at once."""
    state = scope.send("describe_key", KeyId=scope.id)["KeyMetadata"]["KeyState"]
    if state != "PendingDeletion":
        days = scope.properties.get("PendingWindowInDays")
        scope.send("schedule_key_deletion", KeyId=scope.id, PendingWindowInDays=days)


def read_policy(scope: ResourceScope) -> object:
    return like(
        scope.properties["KeyPolicy"],
        scope.send("get_key_policy", KeyId=scope.id, PolicyName="default")["Policy"],
    )


def secret_text(scope: ResourceScope) -> str | None:
    """Return the template's text, or a generated one; GenerateStringKey puts it into the template's JSON."""
    wanted: Mapping[str, Any] | None = scope.properties.get("GenerateSecretString")
    if wanted is None:
        text = scope.properties.get("SecretString")
        return None if text is None else str(text)
    placement = ("GenerateStringKey", "SecretStringTemplate")
    limits = {name: value for name, value in wanted.items() if name not in placement}
    password = str(scope.send("get_random_password", **limits)["RandomPassword"])
    if "GenerateStringKey" not in wanted:
        return password
    return json.dumps({**json.loads(wanted["SecretStringTemplate"]), wanted["GenerateStringKey"]: password})


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
            # Only read when the key is deleted.
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
        accepts="BypassPolicyLockoutSafetyCheck",
    ),
    "AWS::KMS::Alias": ApiResource(
        service="kms",
        create_call=shaped("create_alias"),
        identity=prop("AliasName"),
        settings=(changeable("TargetKeyId", put=shaped("update_alias", AliasName=ID)),),
        delete_call=call("delete_alias", AliasName=ID),
    ),
    "AWS::SecretsManager::Secret": ApiResource(
        service="secretsmanager",
        name=Name(property="Name", limit=512),
        create_call=shaped("create_secret", SecretString=secret_text),
        identity=response("ARN"),
        describe=find("describe_secret", "", SecretId=ID),
        attributes={"Id": ID},
        settings=(
            changeable(
                "Description KmsKeyId",
                put=call(
                    "update_secret",
                    SecretId=ID,
                    Description=prop("Description", ""),
                    KmsKeyId=prop("KmsKeyId"),
                ),
            ),
            changeable(
                "SecretString GenerateSecretString",
                put=call("put_secret_value", SecretId=ID, SecretString=secret_text),
            ),
            tags(SecretId=ID),
        ),
        # CloudFormation deletes a secret without a recovery window.
        delete_call=call("delete_secret", SecretId=ID, ForceDeleteWithoutRecovery=True),
        reads=mirrored("Description KmsKeyId Tags"),
        accepts="GenerateSecretString",
    ),
    "AWS::SecretsManager::ResourcePolicy": ApiResource(
        service="secretsmanager",
        create_call=shaped("put_resource_policy"),
        identity=prop("SecretId"),
        attributes={"Id": ID},
        settings=(changeable("ResourcePolicy BlockPublicPolicy", put=shaped("put_resource_policy")),),
        delete_call=call("delete_resource_policy", SecretId=ID),
    ),
}
