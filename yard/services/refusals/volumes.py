"""Refuses volumes whose size or speed EBS refuses. Source of the limits: API reference, EbsBlockDevice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.yard.errors import ApiError
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.refusals import there


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeLimits:
    """Limits of a volume type as (least, most); None if the type does not support the parameter."""

    gib: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    mib_s: tuple[int, int] | None = None


LIMITS: Mapping[str, VolumeLimits] = {
    "gp2": VolumeLimits(gib=(1, 16_384)),
    "gp3": VolumeLimits(gib=(1, 65_536), iops=(3_000, 80_000), iops_per_gib=500, mib_s=(125, 2_000)),
    "io1": VolumeLimits(gib=(4, 16_384), iops=(100, 64_000), iops_per_gib=50),
    "io2": VolumeLimits(gib=(4, 65_536), iops=(100, 256_000), iops_per_gib=1_000),
    "sc1": VolumeLimits(gib=(125, 16_384)),
    "st1": VolumeLimits(gib=(125, 16_384)),
    "standard": VolumeLimits(gib=(1, 1_024)),
}
BASE_IOPS = 3_000  # included in gp3's price
MIB_S_PER_IOPS = 0.25


def refuse_disks(data: Mapping[str, Any], region: str) -> None:
    """Raise ApiError for an instance's disk that EC2 refuses; the root volume has the AMI's snapshot."""
    image = there.find_image(str(data.get("ImageId") or ""), region)
    for disk in data.get("BlockDeviceMappings") or ():
        told = disk.get("Ebs")
        if told:
            is_root = image is not None and disk.get("DeviceName") == image.root_device_name
            refuse(told, region, image.ebs_snapshot if is_root else None)


def refuse(told: Mapping[str, Any], region: str, snapshot: Any = None) -> None:
    """Raise ApiError for a volume that EBS refuses; `snapshot` is moto's, if the volume names none."""
    kind, size = str(told.get("VolumeType") or "gp2"), int(told.get("VolumeSize") or told.get("Size") or 0)
    if named := told.get("SnapshotId"):
        snapshot = moto_backend("ec2", region).snapshots.get(named)
    least = int(snapshot.volume.size) if snapshot and snapshot.volume else 0
    if size and size < least:
        raise ApiError(
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot '{snapshot.id}', expect size >= {least}GB",
        )
    if kind not in LIMITS:
        return
    limits = LIMITS[kind]
    if size and not limits.gib[0] <= size <= limits.gib[1]:
        word, end = ("small", "minimum") if size < limits.gib[0] else ("large", "maximum")
        most = limits.gib[0] if size < limits.gib[0] else limits.gib[1]
        raise invalid_value(f"Volume of {size}GiB is too {word} for volume type {kind}; {end} is {most}GiB.")
    _refuse_speed(told, kind, size or least)


def _refuse_speed(told: Mapping[str, Any], kind: str, gib: int) -> None:
    limits, iops, mib_s = LIMITS[kind], told.get("Iops"), told.get("Throughput")
    for name, given, ends in (("iops", iops, limits.iops), ("throughput", mib_s, limits.mib_s)):
        if given is None:
            continue
        if ends is None:
            raise ApiError(
                "InvalidParameterCombination", f"The parameter {name} is not supported for {kind} volumes."
            )
        if int(given) < ends[0]:
            raise invalid_value(f"Volume {name} of {int(given)} is too low; minimum is {ends[0]}.")
        if int(given) > ends[1]:
            raise invalid_value(f"Volume {name} of {int(given)} is too high; maximum is {ends[1]}.")
    if iops is None and kind in ("io1", "io2"):
        raise ApiError("MissingParameter", f"The parameter iops must be specified for {kind} volumes.")
    if iops and gib and int(iops) > max(limits.iops_per_gib * gib, BASE_IOPS if kind == "gp3" else 0):
        ratio = f"{int(iops) / gib:.6f} is too high; maximum is {limits.iops_per_gib:.6f}"
        raise invalid_value(f"Iops to volume size ratio of {ratio}")
    if mib_s and int(mib_s) > MIB_S_PER_IOPS * int(iops or BASE_IOPS):
        ratio = f"{int(mib_s) / int(iops or BASE_IOPS):.6f} is too high; maximum is {MIB_S_PER_IOPS:.6f}"
        raise invalid_value(f"Throughput (MiBps) to iops ratio of {ratio} MiBps per iops")


def invalid_value(words: str) -> ApiError:
    return ApiError("InvalidParameterValue", words)
