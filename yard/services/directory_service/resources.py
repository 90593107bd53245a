"""Directory Service: AWS Managed Microsoft AD and Simple AD. Nothing answers at their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipway.yard.cloudformation.resources.api import ApiResource, call, find, mirrored, setting, shaped
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.scope import ID, ResourceScope, live, response
from slipway.yard.cloudformation.resources.tags import tags


def set_sso(scope: ResourceScope) -> None:
    """Single sign-on needs an alias first, which Directory Service gives once and never changes."""
    wanted = bool(scope.properties.get("EnableSso"))
    if wanted != bool(scope.before.get("EnableSso")):
        scope.send("enable_sso" if wanted else "disable_sso", DirectoryId=scope.id)


def set_alias(scope: ResourceScope) -> None:
    if scope.properties.get("CreateAlias") and not scope.before.get("CreateAlias"):
        label = str(scope.properties["Name"]).partition(".")[0]
        scope.send("create_alias", DirectoryId=scope.id, Alias=f"alias-{label}-{scope.id.removeprefix('d-')}")


MICROSOFT_AD = ApiResource(
    service="ds",
    create_call=shaped("create_microsoft_ad"),
    identity=response("DirectoryId"),
    describe=find("describe_directories", "DirectoryDescriptions.0", DirectoryIds=[ID]),
    attributes={"DirectoryId": ID, "Alias": live("Alias", ""), "DnsIpAddresses": live("DnsIpAddrs")},
    settings=(setting("CreateAlias", put=set_alias), setting("EnableSso", put=set_sso)),
    delete_call=call("delete_directory", DirectoryId=ID),
    reads=mirrored("Name", "ShortName", "Edition"),
)
SIMPLE_AD = replace(
    MICROSOFT_AD,
    create_call=shaped("create_directory"),
    settings=(
        *MICROSOFT_AD.settings,
        tags("add_tags_to_resource", "remove_tags_from_resource", ResourceId=ID),
    ),
    reads=mirrored("Name", "ShortName", "Size"),
)

PROVIDERS: Mapping[str, Provider] = {
    "AWS::DirectoryService::MicrosoftAD": MICROSOFT_AD,
    "AWS::DirectoryService::SimpleAD": SIMPLE_AD,
}
