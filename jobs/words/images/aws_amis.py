"""AWS's own AMIs that nodes may boot without a bake: where each is named, and what it holds.

Another is a row of AWS_AMIS. What nodes of ours need besides, their user data brings at the first boot
(infra/patterns/nodes/launch_template.py). A component whose version is "current" is as new as the AMI, which
AWS replaces every few weeks: nothing here is held against such a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CURRENT = "current"
_ECS = "/aws/service/ecs/optimized-ami/amazon-linux-2023"
_PCS = "/aws/service/pcs/ami/dlami-base-ubuntu2404"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsAmi:
    """Describes an AMI of AWS's: one SSM parameter an architecture names the newest."""

    parameters: Mapping[str, str]  # by architecture
    holds: Mapping[str, str]  # components and their versions, called as in the [host] of a lock
    root_device: str
    batch_image_type: str = ""  # how AWS Batch writes its part of the user data, and for which types
    owner: str  # the account that publishes it; an AMI of another one under this name is refused

    @property
    def needs_bake(self) -> bool:
        return False


AWS_AMIS: Mapping[str, AwsAmi] = {
    # Amazon ECS developer guide, "Retrieving Amazon ECS-optimized Linux AMI metadata": the parameters. What
    # they hold: aws/amazon-ecs-ami@a2532d35 (2026-08-19), al2023*.pkr.hcl: ecs-init, Docker, efs-utils, root
    # on xvda.
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
    # The same, with NVIDIA's open driver and container toolkit. EFA's kernel module is the kernel's own,
    # which nobody has tried with GPUs here.
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
    # AWS PCS user guide, "Using Deep Learning AMIs with AWS PCS": agent, Slurm, NVIDIA's driver and EFA.
    # Ranks run in containers: pyxis and enroot come with the first boot.
    "pcs": AwsAmi(
        parameters={
            "x86_64": f"{_PCS}/x86_64/latest/ami-id",
            "arm64": f"{_PCS}/arm64/latest/ami-id",
        },
        holds={"pcs-agent": CURRENT, "slurm": "25.11", "nvidia-driver": CURRENT, "pyxis": "0.20.0"},
        root_device="/dev/sda1",
        owner="898082745236",
    ),
}
_NAMES = {parameter: name for name, ami in AWS_AMIS.items() for parameter in ami.parameters.values()}


def aws_ami_of(parameter: str | None) -> str | None:
    """Name the AMI of AWS's that an SSM parameter names; None if it is not one of the table."""
    return _NAMES.get(parameter or "")
