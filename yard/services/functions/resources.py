"""Resource types of Lambda: functions, permissions and layers. api.py runs Python functions when invoked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    as_map,
    call,
    changeable,
    find,
    setting,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop, response, text
from slipway.yard.services.functions import inside

CONFIGURATION = (
    "DeadLetterConfig Description Environment EphemeralStorage FileSystemConfigs Handler ImageConfig "
    "KmsKeyArn Layers LoggingConfig MemorySize Role Runtime Timeout TracingConfig VpcConfig"
)
# Only the template keeps these: they have no effect in the yard.
UNSEEN = "CodeSigningConfigArn RecursiveLoop ReservedConcurrentExecutions RuntimeManagementConfig SnapStart"


MODULE = "cfnresponse"  # Lambda adds it to inline code that imports it


def code(scope: ResourceScope) -> dict[str, Any]:
    """Return the code for Lambda's API; a template may contain a function's single file inline."""
    given = dict(scope.properties["Code"])
    if "ZipFile" in given:
        # Zip the function's single file; a Python one gets the module cfnresponse, too.
        text = given["ZipFile"]
        runtime = str(scope.properties.get("Runtime", ""))
        is_python = not runtime.startswith("nodejs")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py" if is_python else "index.js", text)
            if is_python and MODULE in text:
                archive.writestr(f"{MODULE}.py", (files(inside) / f"{MODULE}.py").read_text("utf-8"))
        given["ZipFile"] = packed.getvalue()
    return {name: value for name, value in given.items() if name != "SourceKMSKeyArn"}


def change_code(scope: ResourceScope) -> None:
    scope.send(
        "update_function_code",
        FunctionName=scope.id,
        **code(scope),
        Architectures=scope.properties.get("Architectures"),
    )


def change_configuration(scope: ResourceScope) -> None:
    given = {name: scope.properties.get(name) for name in CONFIGURATION.split()}
    scope.send("update_function_configuration", FunctionName=scope.id, **given)


def statement(scope: ResourceScope) -> str:
    return scope.context.default_name[-100:]


PROVIDERS: Mapping[str, Provider] = {
    "AWS::Lambda::Function": ApiResource(
        service="lambda",
        name=Name(property="FunctionName", limit=64),
        create_call=shaped(
            "create_function",
            Code=code,
            Tags=lambda scope: as_map(scope.properties, "Tags") or None,
            SnapStart=None,
        ),
        describe=find("get_function", "Configuration", FunctionName=ID),
        attributes={
            "Arn": live("FunctionArn"),
            "SnapStartResponse.ApplyOn": lambda _scope: "None",
            "SnapStartResponse.OptimizationStatus": lambda _scope: "Off",
            "SnapStartResponse": lambda _scope: {"ApplyOn": "None", "OptimizationStatus": "Off"},
        },
        settings=(
            changeable("Code Architectures", put=change_code),
            changeable(CONFIGURATION, put=change_configuration),
            setting(UNSEEN, put=lambda _scope: None),
            tags(Resource=text("arn:aws:lambda:{region}:{account}:function:{id}")),
        ),
        delete_call=call("delete_function", FunctionName=ID),
    ),
    "AWS::Lambda::Permission": ApiResource(
        service="lambda",
        create_call=shaped("add_permission", StatementId=statement),
        identity=statement,
        attributes={"Id": ID},
        delete_call=call("remove_permission", FunctionName=prop("FunctionName"), StatementId=ID),
    ),
    "AWS::Lambda::LayerVersion": ApiResource(
        service="lambda",
        name=Name(property="LayerName", limit=64),
        create_call=shaped("publish_layer_version"),
        identity=response("LayerVersionArn"),
        attributes={"LayerVersionArn": ID},
        delete_call=lambda scope: scope.send(
            "delete_layer_version",
            LayerName=scope.id.rpartition(":")[0],
            VersionNumber=int(scope.id.rpartition(":")[2]),
        ),
    ),
}
