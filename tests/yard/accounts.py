"""Gives an account the quotas and AMIs that most tests need and a fresh one lacks."""

from __future__ import annotations

from typing import Any

from slipway.yard.endpoint import Yard, control
from slipway.yard.services.service_quotas.quotas import known_codes, of_a_fresh_account

ENOUGH = 4096  # vCPUs, or instances of a training job
IMAGES = ("cpu-mpi", "gaudi-ecs", "gaudi-mpi", "neuron-slurm")


def raise_quotas(yard: Yard) -> None:
    wanted = [code for code in known_codes() if of_a_fresh_account(code) < ENOUGH]
    control(yard, "POST", "/grant-quota", [{"code": code, "vcpus": ENOUGH} for code in wanted])


def stand_in(yard: Yard, *images: str, region: str = "us-east-1") -> None:
    """Register empty AMIs."""
    for image in images or IMAGES:
        control(yard, "POST", "/stand-in", {"image": image, "region": region})


def own_image(ec2: Any) -> str:
    """Return an AMI of the account's; register one if it has none."""
    known = ec2.describe_images(Owners=["self"])["Images"] or [ec2.register_image(Name="nodes")]
    return str(known[0]["ImageId"])
