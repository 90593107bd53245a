"""Resource types of Systems Manager: parameters and documents."""

from __future__ import annotations

from collections.abc import Mapping

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
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, prop
from slipway.yard.cloudformation.resources.shapes import like

PARAMETER_PROPERTIES = "AllowedPattern DataType Description Policies Tier Type Value"


def arn(scope: ResourceScope) -> str:
    """Return the parameter's ARN; a name that is a path begins with a slash itself."""
    place = f"arn:aws:ssm:{scope.context.region}:{scope.context.account}:parameter"
    return f"{place}{'' if scope.id.startswith('/') else '/'}{scope.id}"


def rewrite_document(scope: ResourceScope) -> None:
    """Add a version that becomes the default one (UpdateMethod NewVersion)."""
    answer = scope.send(
        "update_document",
        Name=scope.id,
        Content=scope.properties["Content"],
        DocumentVersion="$LATEST",
        DocumentFormat=scope.properties.get("DocumentFormat", "JSON"),
        TargetType=scope.properties.get("TargetType"),
        VersionName=scope.properties.get("VersionName"),
    )
    version = answer["DocumentDescription"]["DocumentVersion"]
    scope.send("update_document_default_version", Name=scope.id, DocumentVersion=version)


def read_content(scope: ResourceScope) -> object:
    return like(scope.properties["Content"], scope.send("get_document", Name=scope.id)["Content"])


PROVIDERS: Mapping[str, Provider] = {
    "AWS::SSM::Parameter": ApiResource(
        service="ssm",
        name=Name(property="Name", limit=1011, prefix="CFN"),
        create_call=shaped("put_parameter"),
        describe=find("get_parameter", "Parameter", Name=ID, WithDecryption=True),
        attributes={"Arn": arn, "Type": live("Type"), "Value": live("Value")},
        settings=(
            changeable(PARAMETER_PROPERTIES, put=shaped("put_parameter", Name=ID, Overwrite=True, Tags=None)),
            tags(
                "add_tags_to_resource", "remove_tags_from_resource", ResourceType="Parameter", ResourceId=ID
            ),
        ),
        delete_call=call("delete_parameter", Name=ID),
        reads=mirrored("Type Value DataType"),
    ),
    "AWS::SSM::Document": ApiResource(
        service="ssm",
        name=Name(property="Name", limit=128),
        create_call=shaped(
            "create_document",
            DocumentFormat=prop("DocumentFormat", "JSON"),
            DocumentType=prop("DocumentType", "Command"),
        ),
        describe=find("describe_document", "Document", Name=ID),
        settings=(
            changeable("Content DocumentFormat TargetType VersionName", put=rewrite_document),
            # Only tells CloudFormation how to update the document.
            setting("UpdateMethod", put=lambda _scope: None),
            tags("add_tags_to_resource", "remove_tags_from_resource", ResourceType="Document", ResourceId=ID),
        ),
        delete_call=call("delete_document", Name=ID),
        reads={"Content": read_content},
    ),
}
