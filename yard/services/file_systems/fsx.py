"""FSx's file systems: moto keeps them, but lacks state, mount name, root volume and limits.

A file system is AVAILABLE at once, but has no server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend

Parameters = Mapping[str, Any]

_CONFIGURATIONS = {
    "LUSTRE": ("LustreConfiguration", "lustre_configuration"),
    "ONTAP": ("OntapConfiguration", "ontap_configuration"),
    "OPENZFS": ("OpenZFSConfiguration", "open_zfs_configuration"),
    "WINDOWS": ("WindowsConfiguration", "windows_configuration"),
}
# (smallest, largest) in GiB. API reference, CreateFileSystem, StorageCapacity.
_RANGES = {"ONTAP": (1024, 1048576), "OPENZFS": (64, 524288), "WINDOWS": (32, 65536)}
_HDD_STEPS_GIB = {12: 6000, 40: 1800}  # throughput in MB/s per TiB -> step of the capacity
_made_at: dict[str, datetime] = {}


def reset() -> None:
    _made_at.clear()


def _create(parameters: Parameters, region: str) -> dict[str, Any]:
    kind = str(parameters["FileSystemType"])
    _refuse_capacity(kind, parameters.get("StorageCapacity"), parameters.get("LustreConfiguration") or {})
    made = moto_backend("fsx", region).create_file_system(
        client_request_token=parameters.get("ClientRequestToken"),
        file_system_type=kind,
        storage_capacity=parameters.get("StorageCapacity"),
        storage_type=parameters.get("StorageType", "SSD"),
        subnet_ids=parameters["SubnetIds"],
        security_group_ids=parameters.get("SecurityGroupIds", []),
        tags=parameters.get("Tags"),
        kms_key_id=parameters.get("KmsKeyId"),
        windows_configuration=parameters.get("WindowsConfiguration"),
        lustre_configuration=parameters.get("LustreConfiguration"),
        ontap_configuration=parameters.get("OntapConfiguration"),
        open_zfs_configuration=parameters.get("OpenZFSConfiguration"),
        file_system_type_version=parameters.get("FileSystemTypeVersion"),
    )
    _made_at[made.file_system_id] = datetime.now(UTC)
    return {"FileSystem": _shown(made, region)}


def _describe(parameters: Parameters, region: str) -> dict[str, Any]:
    wanted = parameters.get("FileSystemIds") or []
    known = moto_backend("fsx", region).file_systems
    for identifier in wanted:
        if identifier not in known:
            raise _unknown(identifier)
    found = [one for name, one in list(known.items()) if not wanted or name in wanted]
    return {"FileSystems": [_shown(one, region) for one in found]}


def _update(parameters: Parameters, region: str) -> dict[str, Any]:
    known = moto_backend("fsx", region).file_systems.get(parameters["FileSystemId"])
    if known is None:
        raise _unknown(parameters["FileSystemId"])
    word, attribute = _CONFIGURATIONS[known.file_system_type]
    wanted = {**(getattr(known, attribute) or {}), **(parameters.get(word) or {})}
    capacity = parameters.get("StorageCapacity", known.storage_capacity)
    if capacity != known.storage_capacity:
        if capacity < known.storage_capacity:
            change = f"from {known.storage_capacity} to {capacity} GiB"
            raise _bad(f"storage capacity cannot shrink {change}: make a new file system")
        _refuse_capacity(known.file_system_type, capacity, wanted)
    known.storage_capacity = capacity
    setattr(known, attribute, wanted or None)
    return {"FileSystem": _shown(known, region)}


def _shown(file_system: Any, region: str) -> dict[str, Any]:
    identifier = file_system.file_system_id
    networks = {subnet.id: str(subnet.vpc_id) for subnet in moto_backend("ec2", region).describe_subnets()}
    shown = {
        **file_system.to_dict(),
        "OwnerId": ACCOUNT,
        "CreationTime": _made_at.setdefault(identifier, datetime.now(UTC)),
        "Lifecycle": "AVAILABLE",
        "VpcId": next((networks[subnet] for subnet in file_system.subnet_ids if subnet in networks), None),
    }
    if file_system.file_system_type == "LUSTRE":
        given = shown.get("LustreConfiguration") or {}
        # FSx's mount name is `fsx` for SCRATCH_1, else eight letters and digits.
        mount_name = identifier[-8:] if given.get("DeploymentType", "SCRATCH_1") != "SCRATCH_1" else "fsx"
        shown["LustreConfiguration"] = {**given, "MountName": mount_name}
    if file_system.file_system_type == "OPENZFS":
        given = shown.get("OpenZFSConfiguration") or {}
        volume = f"fsvol-{identifier.removeprefix('fs-'):0>17}"
        shown["OpenZFSConfiguration"] = {**given, "RootVolumeId": volume}
    return {name: value for name, value in shown.items() if value is not None}


def _refuse_capacity(kind: str, capacity: int | None, lustre: Parameters) -> None:
    if capacity is None:
        return
    if kind in _RANGES:
        low, high = _RANGES[kind]
        if not low <= capacity <= high:
            raise _bad(f"storage capacity of {capacity} GiB for {kind}: it is from {low} to {high} GiB")
        return
    step = 3600
    if lustre.get("DeploymentType", "SCRATCH_1") != "SCRATCH_1":
        step = _HDD_STEPS_GIB.get(int(lustre.get("PerUnitStorageThroughput", 0)), 2400)
    smallest = (1200, 2400) if step in (2400, 3600) else (step,)
    if capacity not in smallest and capacity % step:
        starts = ", ".join(map(str, smallest))
        raise _bad(f"storage capacity of {capacity} GiB: it is {starts} or a multiple of {step} GiB")


def _bad(message: str) -> ApiError:
    return ApiError("BadRequest", message)


def _unknown(identifier: str) -> ApiError:
    return ApiError("FileSystemNotFound", f"File system '{identifier}' does not exist.")


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "CreateFileSystem": _create,
    "DescribeFileSystems": _describe,
    "UpdateFileSystem": _update,
}
