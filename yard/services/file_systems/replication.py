"""EFS's replications: kept with the destination that EFS makes for one. No file is copied.

Source: Amazon EFS user guide, "Replicating EFS file systems"; API reference, CreateReplicationConfiguration
and DeleteFileSystem.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError

CREATE, DELETE = "CreateReplicationConfiguration", "DeleteReplicationConfiguration"
DESCRIBE, DELETE_FILE_SYSTEM = "DescribeReplicationConfigurations", "DeleteFileSystem"

Answer = dict[str, Any]
_kept: dict[str, Answer] = {}  # by the id of the source


def call(operation: str, parameters: Mapping[str, Any], region: str) -> Answer:
    return {
        CREATE: _create,
        DELETE: _delete,
        DESCRIBE: _describe,
        DELETE_FILE_SYSTEM: _delete_file_system,
    }[operation](parameters, region)


def reset() -> None:
    _kept.clear()


def _create(parameters: Mapping[str, Any], region: str) -> Answer:
    source, (wanted,) = _own(parameters["SourceFileSystemId"], region), parameters["Destinations"]
    for taken in (source.file_system_id, _id_of(wanted.get("FileSystemId", ""))):
        if taken and any(_parts(taken)):
            raise ApiError("ConflictException", f"{taken} is part of a replication already", status=409)
    place = wanted.get("Region") or wanted.get("AvailabilityZoneName", region + "a")[:-1]
    destination = _destination(source, wanted, place)
    arn = f"arn:aws:elasticfilesystem:{region}:{ACCOUNT}:file-system/{source.file_system_id}"
    _kept[source.file_system_id] = {
        "SourceFileSystemId": source.file_system_id,
        "SourceFileSystemRegion": region,
        "SourceFileSystemArn": arn,
        "OriginalSourceFileSystemArn": arn,
        "SourceFileSystemOwnerId": ACCOUNT,
        "CreationTime": datetime.now(UTC).timestamp(),
        "Destinations": [
            {"Status": "ENABLED", "FileSystemId": destination, "Region": place, "OwnerId": ACCOUNT}
        ],
    }
    return _kept[source.file_system_id]


def _destination(source: Any, wanted: Mapping[str, Any], region: str) -> str:
    """Return the id of the file system that is named, else of a new one that takes after the source."""
    if wanted.get("FileSystemId"):
        # Every file system is protected from being overwritten until its owner ends that, with a call that
        # the yard lacks.
        found = _own(_id_of(wanted["FileSystemId"]), region).file_system_id
        raise ApiError(
            "ConflictException",
            f"{found} cannot be a destination: its ReplicationOverwriteProtection is ENABLED, and the yard "
            "has no UpdateFileSystemProtection; leave FileSystemId out to have one made",
            status=409,
        )
    made = _backend(region).create_file_system(
        creation_token=f"destination-{uuid.uuid4()}",
        performance_mode="generalPurpose",
        encrypted=True,  # as every destination that EFS makes
        kms_key_id=wanted.get("KmsKeyId"),
        throughput_mode=source.throughput_mode,
        provisioned_throughput_in_mibps=source.provisioned_throughput_in_mibps,
        availability_zone_name=wanted.get("AvailabilityZoneName"),
        backup=False,
        tags=[],
    )
    return str(made.file_system_id)


def _delete(parameters: Mapping[str, Any], _region: str) -> Answer:
    """End a replication; its destination stays, and can be written again."""
    if _kept.pop(parameters["SourceFileSystemId"], None) is None:
        raise _not_found(parameters["SourceFileSystemId"])
    return {}


def _describe(parameters: Mapping[str, Any], region: str) -> Answer:
    wanted = _id_of(parameters.get("FileSystemId", ""))
    if not wanted:
        return {"Replications": [kept for kept in _kept.values() if _is_in(kept, region)]}
    _own(wanted, region)
    if not (found := list(_parts(wanted))):
        raise _not_found(wanted)
    return {"Replications": found}


def _delete_file_system(parameters: Mapping[str, Any], region: str) -> Answer:
    wanted = _id_of(parameters["FileSystemId"])
    if any(_parts(wanted)):
        raise ApiError(
            "FileSystemInUse",
            f"{wanted} is part of a replication; delete its replication configuration first",
            status=409,
        )
    _own(wanted, region)
    _backend(region).delete_file_system(wanted)
    return {}


def _parts(file_system: str) -> Iterator[Answer]:
    """Yield the replications that a file system is the source or the destination of."""
    for source, kept in _kept.items():
        if file_system in (source, kept["Destinations"][0]["FileSystemId"]):
            yield kept


def _is_in(kept: Answer, region: str) -> bool:
    return region in (kept["SourceFileSystemRegion"], kept["Destinations"][0]["Region"])


def _own(file_system: str, region: str) -> Any:
    found = _backend(region).file_systems_by_id.get(file_system)
    if found is None:
        raise ApiError("FileSystemNotFound", f"File system '{file_system}' does not exist.", status=404)
    return found


def _backend(region: str) -> Any:
    from moto.efs.models import efs_backends

    return efs_backends[ACCOUNT][region]


def _id_of(id_or_arn: str) -> str:
    return id_or_arn.rpartition("/")[2]


def _not_found(file_system: str) -> ApiError:
    return ApiError("ReplicationNotFound", f"{file_system} has no replication configuration", status=404)
