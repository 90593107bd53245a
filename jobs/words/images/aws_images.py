"""Lists AWS's own AMIs and containers, which need no bake and no build: where to find each, what it holds.

Another AMI is a row of AWS_AMIS. User data installs what else our nodes need at their first boot
(infra/patterns/nodes/launch_template.py). A component of version "current" is as new as the AMI, which AWS
replaces every few weeks: nothing here is checked against it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

CURRENT = "current"
_ECS = "/aws/service/ecs/optimized-ami/amazon-linux-2023"
_PCS = "/aws/service/pcs/ami/dlami-base-ubuntu2404"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAmi:
    """Describes an AMI of AWS's, whose newest release one SSM parameter names for each architecture."""

    parameters: Mapping[str, str]  # by architecture
    holds: Mapping[str, str]  # versions by component, named as in the [host] of a lock
    root_device: str
    batch_image_type: str = ""  # AWS Batch's name for the AMI and its user data
    owner: str  # the account that publishes it; an AMI of another account under its name is refused


AWS_AMIS: Mapping[str, AwsAmi] = {
    # Amazon ECS developer guide, "Retrieving Amazon ECS-optimized Linux AMI metadata", has the parameters.
    # Their contents: aws/amazon-ecs-ami@a2532d35 (2026-08-19), al2023*.pkr.hcl: ecs-init, Docker, efs-utils,
    # root on xvda.
    "ecs": AwsAmi(
        parameters={
            "x86_64": f"{_ECS}/recommended/image_id",
            "arm64": f"{_ECS}/arm64/recommended/image_id",
        },
        holds={"ecs-agent": CURRENT},
        root_device="/dev/xvda",
        batch_image_type="ECS_AL2023",
        owner="591542846629",
    ),
    # The same with NVIDIA's open driver and container toolkit. EFA's module is the kernel's own, which nobody
    # has tried with GPUs for this project.
    "ecs-nvidia": AwsAmi(
        parameters={"x86_64": f"{_ECS}/gpu/recommended/image_id"},
        holds={"ecs-agent": CURRENT, "nvidia-driver": CURRENT},
        root_device="/dev/xvda",
        batch_image_type="ECS_AL2023_NVIDIA",  # AWS Batch API reference, Ec2Configuration: for GPU families
        owner="591542846629",
    ),
    "ecs-neuron": AwsAmi(
        parameters={"x86_64": f"{_ECS}/neuron/recommended/image_id"},
        holds={"ecs-agent": CURRENT, "neuron-driver": CURRENT},
        root_device="/dev/xvda",
        batch_image_type="ECS_AL2023",
        owner="591542846629",
    ),
    # AWS PCS user guide, "Using PCS-ready DLAMI with AWS PCS": agent, Slurm, NVIDIA's driver, EFA and the
    # Lustre client. Ranks run in containers: the first boot installs pyxis and enroot.
    "pcs": AwsAmi(
        parameters={
            "x86_64": f"{_PCS}/x86_64/latest/ami-id",
            "arm64": f"{_PCS}/arm64/latest/ami-id",
        },
        holds={
            "pcs-agent": CURRENT,
            "slurm": "25.11",
            "nvidia-driver": CURRENT,
            "lustre-client": CURRENT,
            "pyxis": "0.20.0",
        },
        root_device="/dev/sda1",
        owner="898082745236",
    ),
}
_NAMES = {parameter: name for name, ami in AWS_AMIS.items() for parameter in ami.parameters.values()}


def aws_ami_of(parameter: str | None) -> str | None:
    """Return the AMI of AWS's that an SSM parameter names; None if it is not in the table."""
    return _NAMES.get(parameter or "")


# AWS's containers for ranks: the registry of each region, and the tag that a lock names. A lock with a
# [registry] names an image that AWS publishes: its repository, and a tag for each device. Registries of AWS's
# Deep Learning Containers, from the SageMaker SDK 2.257.7 (image_uri_config/pytorch.json).
_REGISTRY = "763104351884"
_REGISTRIES: Mapping[str, str] = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
}
_SHARES_IT = frozenset(
    {
        "ap-northeast-1",
        "ap-northeast-2",
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ca-central-1",
        "eu-central-1",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
        "sa-east-1",
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
    }
)


class NoPublishedImage(SlipwayError):
    """AWS publishes no image for this region or device, or the lock names none."""


def published_image(containers: Path, name: str, *, region: str, device: str) -> str:
    """Return the URI of the image of this name; `device` is a word of a recipe's ACCELERATORS."""
    path = containers / "images" / name / "lock.toml"
    published = tomllib.loads(path.read_text(encoding="utf-8")).get("registry") if path.is_file() else None
    if not isinstance(published, dict) or "repository" not in published:
        raise NoPublishedImage(
            f"containers/images/{name} is no image of a registry",
            hint="use sagemaker-pytorch, or write its [registry]",
        )
    account = registry_account(region)
    if account is None:
        raise NoPublishedImage(
            f"AWS's registry of containers in {region} is not known",
            hint="add it to jobs/words/images/aws_images.py, or use another region",
        )
    if device not in published:
        held = ", ".join(sorted(published.keys() - {"repository"}))
        raise NoPublishedImage(
            f"image '{name}' has no tag for {device}; it has {held}",
            hint=f"use another instance type, or add one to containers/images/{name}/lock.toml",
        )
    return f"{account}.dkr.ecr.{region}.amazonaws.com/{published['repository']}:{published[device]}"


def is_published_by_aws(uri: str) -> bool:
    """Return True for an image of AWS's own registries, whose accounts begin the URI."""
    return uri.partition(".dkr.ecr.")[0] in {_REGISTRY, *_REGISTRIES.values()}


def registry_account(region: str) -> str | None:
    return _REGISTRIES.get(region) or (_REGISTRY if region in _SHARES_IT else None)
