"""Stand-ins for what a real account has although no call of the user made it; some patch moto's behaviour.

Each is made before the first call to a service that shows it. To add one: a function and its line in
STAND_INS.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from slipway.jobs.words.catalogue.instances import InstanceType, instance_types
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.ec2 import launches
from slipway.yard.services.refusals import buckets
from slipway.yard.services.ssm import public_parameters

# AWS PCS's sample AMIs; templates look for the newest one of a version by its name.
# To add a version: a row of SAMPLES. Source: AWS PCS user guide, "Using sample AMIs with AWS PCS".
NAME = "aws-pcs-sample_ami-{os}-{architecture}-slurm-{version}"
SAMPLES = (("amzn2", "24.05"), ("amzn2", "24.11"), ("amzn2", "25.05"), ("al2023", "25.11"))
_ARCHITECTURES = ("x86_64", "arm64")
_BUILT = "2026-01-15T00-00-00.000Z"  # names end with a date; AWS's real dates are not known here
_OWNER = "137112412989"  # an account of Amazon; the real owner is not known here


def register_sample_amis(region: str) -> None:
    """Let DescribeImages find the sample AMIs in the region; repeating it changes nothing."""
    from moto.ec2.models.amis import Ami

    backend = moto_backend("ec2", region)
    for (system, version), architecture in product(SAMPLES, _ARCHITECTURES):
        name = f"{NAME.format(os=system, architecture=architecture, version=version)}-{_BUILT}"
        identifier = f"ami-{hashlib.sha256(f'{region} {name}'.encode()).hexdigest()[:17]}"
        backend.amis[identifier] = Ami(
            backend,
            identifier,
            name=name,
            description="a stand-in of the yard for a sample AMI of AWS PCS",
            owner_id=_OWNER,
            owner_alias="amazon",
            public=True,
            architecture=architecture,
            virtualization_type="hvm",
            root_device_type="ebs",
            root_device_name="/dev/xvda",
            hypervisor="xen",
            region_name=f"{region}a",
        )


BATCH_ROLE = "AWSServiceRoleForBatch"
BATCH_SERVICE = "batch.amazonaws.com"
BATCH_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": {"Service": BATCH_SERVICE}}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    what: str
    services: frozenset[str]  # made before the first call to one of these
    make: Callable[[str], None]  # takes the region; may be called again
    is_regional: bool = True


def prepare(service: str, region: str) -> None:
    """Make all stand-ins that this service shows, once per region."""
    for stand_in in STAND_INS:
        if service in stand_in.services:
            key = (stand_in.what, region if stand_in.is_regional else "")
            with _lock:  # held until it is made, so that concurrent callers wait for it
                if key not in _made:
                    stand_in.make(region)
                    _made.add(key)


def described() -> list[str]:
    return [stand_in.what for stand_in in STAND_INS]


def reset() -> None:
    with _lock:
        _made.clear()


_lock = threading.Lock()
_made: set[tuple[str, str]] = set()


def _know_instance_types() -> None:
    """Patch moto for good: add the types that it lacks, check launches, and filter offers as EC2 does."""
    _add_instance_types()
    launches.guard()
    launches.show()


@lru_cache(maxsize=1)
def _add_instance_types() -> None:
    """Add types of our catalogue that moto's snapshot of EC2 no longer has, such as dl1.24xlarge.

    This happens once: moto's tables outlive a reset.
    """
    from moto.ec2.models import instance_types as moto_types

    for known in instance_types():
        if known.name not in moto_types.INSTANCE_TYPES:
            moto_types.INSTANCE_TYPES[known.name] = _described(known)
            moto_types.InstanceTypeBackend.instance_types.append(moto_types.InstanceType(known.name))
        for region in known.regions:
            _offer(moto_types.INSTANCE_TYPE_OFFERINGS, known.name, region)


def _offer(offerings: dict[str, dict[str, list[dict[str, str]]]], name: str, region: str) -> None:
    """Offer the type in the region and its first two zones; the catalogue does not know zones."""
    for kind, by_region in offerings.items():
        listed = by_region.get(region)
        if listed is None or any(offer["InstanceType"] == name for offer in listed):
            continue
        zones = sorted({offer["Location"] for offer in listed})[:2]
        listed += [{"InstanceType": name, "Location": zone, "LocationType": kind} for zone in zones]


def _described(known: InstanceType) -> dict[str, Any]:
    """Describe the type as DescribeInstanceTypes does, as far as the catalogue knows it."""
    network: dict[str, Any] = {
        "NetworkPerformance": f"{known.network_gbps:g} Gigabit",
        "MaximumNetworkCards": known.network_cards,
        "EnaSupport": "required",
        "EfaSupported": known.has_efa,
    }
    if known.has_efa:
        network["EfaInfo"] = {"MaximumEfaInterfaces": known.efa_interfaces}
    return {
        "InstanceType": known.name,
        "CurrentGeneration": True,
        "SupportedUsageClasses": ["on-demand"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "ProcessorInfo": {"SupportedArchitectures": [known.architecture]},
        "VCpuInfo": {"DefaultVCpus": known.vcpus},
        "MemoryInfo": {"SizeInMiB": known.memory_mib},
        "NetworkInfo": network,
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "Hypervisor": "nitro",
    } | _accelerator(known)


def _accelerator(known: InstanceType) -> dict[str, Any]:
    if known.accelerator is None:
        return {}
    memory_mib = int(known.accelerator.memory_gib * 1024)
    device = {
        "Name": known.accelerator.name,
        "Count": known.accelerator.count,
        "MemoryInfo": {"SizeInMiB": memory_mib},
    }
    total = {"TotalGpuMemoryInMiB": memory_mib * known.accelerator.count}
    return {"GpuInfo": {"Gpus": [device], **total}}


def _create_batch_role(_region: str) -> None:
    """Make Batch's service-linked role, as AWS does when an account first uses Batch."""
    iam = moto_backend("iam")
    if not any(role.name == BATCH_ROLE for role in iam.roles.values()):
        iam.create_role(
            BATCH_ROLE,
            json.dumps(BATCH_TRUST),
            f"/aws-service-role/{BATCH_SERVICE}/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
            linked_service=BATCH_SERVICE,
        )


STAND_INS = (
    StandIn(
        what=f"public parameters of AMIs, and the AMIs: {', '.join(public_parameters.families())}",
        services=frozenset({"autoscaling", "ssm"}),
        make=lambda _region: public_parameters.show(),
        is_regional=False,
    ),
    StandIn(
        what=f"the sample AMIs of AWS PCS: {NAME}",
        services=frozenset({"ec2"}),
        make=register_sample_amis,
    ),
    StandIn(
        what="instance types of the catalogue that moto lacks, and where they are offered",
        services=frozenset({"autoscaling", "ec2", "batch", "imagebuilder", "pcs", "ecs", "service-quotas"}),
        make=lambda _region: _know_instance_types(),
        is_regional=False,
    ),
    StandIn(
        what="S3's rules for the names of buckets",
        services=frozenset({"s3"}),
        make=lambda _region: buckets.guard(),
        is_regional=False,
    ),
    StandIn(
        what=f"the role {BATCH_ROLE}",
        services=frozenset({"iam", "batch"}),
        make=_create_batch_role,
        is_regional=False,
    ),
)
