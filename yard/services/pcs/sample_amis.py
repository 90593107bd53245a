"""The AMIs that AWS PCS publishes as samples; templates look for the newest of a version by its name.

To add a version: a row of SAMPLES. Source: AWS PCS user guide, "Using sample AMIs with AWS PCS".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from slipway.yard.endpoint import ACCOUNT

NAME = "aws-pcs-sample_ami-{os}-{architecture}-slurm-{version}"
SAMPLES = (("amzn2", "24.05"), ("amzn2", "24.11"), ("amzn2", "25.05"), ("al2023", "25.11"))
_ARCHITECTURES = ("x86_64", "arm64")
_BUILT = "2026-01-15T00-00-00.000Z"  # names end with a date; which one, the yard does not know
_OWNER = "137112412989"  # Amazon's own; which of its accounts, the yard does not know


def names() -> Iterator[tuple[str, str]]:
    """Return each name and its architecture."""
    for system, version in SAMPLES:
        for architecture in _ARCHITECTURES:
            prefix = NAME.format(os=system, architecture=architecture, version=version)
            yield f"{prefix}-{_BUILT}", architecture


def register(region: str) -> None:
    """Let DescribeImages find them in the region; a second time changes nothing."""
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami

    backend = ec2_backends[ACCOUNT][region]
    for name, architecture in names():
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
