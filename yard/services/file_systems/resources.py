"""Resource types of file systems: EFS and FSx."""

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
from slipway.yard.cloudformation.resources.recorded import Form, SchemaRecord
from slipway.yard.cloudformation.resources.scope import (
    ID,
    ResourceScope,
    live,
    prop,
    response,
    text,
)


def open_zfs(scope: ResourceScope) -> dict[str, object] | None:
    """Return the configuration without its Options, which are only about the deletion."""
    given = scope.properties.get("OpenZFSConfiguration")
    return given and {name: value for name, value in given.items() if name != "Options"}


def lifecycle(scope: ResourceScope) -> list[dict[str, str]]:
    return [dict(policy) for policy in scope.properties.get("LifecyclePolicies") or []]


PROVIDERS: Mapping[str, Provider] = {
    "AWS::EFS::FileSystem": ApiResource(
        service="efs",
        create_call=shaped(
            "create_file_system",
            renames={"FileSystemTags": "Tags"},
            Backup=lambda scope: scope.properties.get("BackupPolicy", {}).get("Status") == "ENABLED",
        ),
        identity=response("FileSystemId"),
        describe=find("describe_file_systems", "FileSystems.0", FileSystemId=ID),
        attributes={"FileSystemId": ID, "Arn": live("FileSystemArn")},
        settings=(
            setting(
                "LifecyclePolicies",
                put=call("put_lifecycle_configuration", FileSystemId=ID, LifecyclePolicies=lifecycle),
            ),
            changeable(
                "BackupPolicy",
                put=call(
                    "put_backup_policy",
                    FileSystemId=ID,
                    BackupPolicy=prop("BackupPolicy", {"Status": "DISABLED"}),
                ),
            ),
            setting(
                "FileSystemPolicy",
                put=call("put_file_system_policy", FileSystemId=ID, Policy=prop("FileSystemPolicy")),
                remove=call("delete_file_system_policy", FileSystemId=ID),
            ),
            changeable(
                "ThroughputMode ProvisionedThroughputInMibps",
                put=shaped("update_file_system", FileSystemId=ID),
            ),
            tags(of="FileSystemTags", ResourceId=ID),
            # Only the template keeps these: the yard replicates no file system.
            setting("ReplicationConfiguration FileSystemProtection", put=lambda _scope: None),
        ),
        delete_call=call("delete_file_system", FileSystemId=ID),
        reads=mirrored("Encrypted PerformanceMode ThroughputMode"),
        accepts="BackupPolicy BypassPolicyLockoutSafetyCheck",
    ),
    "AWS::EFS::MountTarget": ApiResource(
        service="efs",
        create_call=shaped("create_mount_target"),
        identity=response("MountTargetId"),
        describe=find("describe_mount_targets", "MountTargets.0", MountTargetId=ID),
        attributes={"Id": ID, "IpAddress": live("IpAddress")},
        settings=(
            changeable("SecurityGroups", put=shaped("modify_mount_target_security_groups", MountTargetId=ID)),
        ),
        delete_call=call("delete_mount_target", MountTargetId=ID),
    ),
    "AWS::EFS::AccessPoint": ApiResource(
        service="efs",
        create_call=shaped("create_access_point", renames={"AccessPointTags": "Tags"}),
        identity=response("AccessPointId"),
        describe=find("describe_access_points", "AccessPoints.0", AccessPointId=ID),
        attributes={"AccessPointId": ID, "Arn": live("AccessPointArn")},
        settings=(tags(of="AccessPointTags", ResourceId=ID),),
        delete_call=call("delete_access_point", AccessPointId=ID),
    ),
    "AWS::FSx::FileSystem": ApiResource(
        service="fsx",
        create_call=shaped("create_file_system", OpenZFSConfiguration=open_zfs),
        identity=response("FileSystem.FileSystemId"),
        describe=find("describe_file_systems", "FileSystems.0", FileSystemIds=[ID]),
        attributes={
            "Id": ID,
            "ResourceARN": live("ResourceARN"),
            "DNSName": live("DNSName", ""),
            "LustreMountName": live("LustreConfiguration.MountName"),
            "RootVolumeId": live("OpenZFSConfiguration.RootVolumeId"),
        },
        settings=(
            changeable(
                "LustreConfiguration OntapConfiguration OpenZFSConfiguration "
                "WindowsConfiguration StorageCapacity FileSystemTypeVersion",
                put=shaped("update_file_system", FileSystemId=ID),
            ),
            tags(ResourceARN=text("arn:aws:fsx:{region}:{account}:file-system/{id}")),
        ),
        delete_call=call("delete_file_system", FileSystemId=ID),
        reads=mirrored("StorageCapacity Tags"),
    ),
    "AWS::FSx::DataRepositoryAssociation": SchemaRecord(
        type="AWS::FSx::DataRepositoryAssociation",
        form=Form(
            identity=text("dra-{id}"),
            attributes={
                "ResourceARN": text("arn:aws:fsx:{region}:{account}:association/{FileSystemId}/{id}")
            },
        ),
    ),
}
