"""Secrets Manager: secrets and their resource policies."""

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
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, prop, response


def secret_text(scope: ResourceScope) -> str | None:
    """The template's text, or a generated one; with GenerateStringKey, put into the template's JSON."""
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
        # CloudFormation does not leave a deleted secret in its recovery window.
        delete_call=call("delete_secret", SecretId=ID, ForceDeleteWithoutRecovery=True),
        reads=mirrored("Description KmsKeyId Tags"),
        accepts=frozenset({"GenerateSecretString"}),
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
