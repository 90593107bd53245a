"""The images of AWS that jobs of SageMaker run in: which registry a region has, and which tag a lock names.

A lock with a [registry] names an image that somebody else publishes: its repository, and a tag by device.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from slipway.jobs.words.errors import SlipwayError

# Of AWS's Deep Learning Containers, as the SageMaker SDK 2.257.7 has them (image_uri_config/pytorch.json).
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


class NoTrainingImage(SlipwayError):
    """AWS publishes no image for this region or device, or the lock names none."""


def training_image(containers: Path, name: str, *, region: str, device: str) -> str:
    """Return the URI of the image of this name; `device` is what a recipe's ACCELERATORS calls it."""
    published = _published(containers, name)
    account = _REGISTRIES.get(region) or (_REGISTRY if region in _SHARES_IT else None)
    if account is None:
        raise NoTrainingImage(
            f"AWS's registry of training images in {region} is not known",
            hint="add it to jobs/words/sagemaker/training_images.py, or use another region",
        )
    if device not in published:
        held = ", ".join(sorted(published.keys() - _NO_DEVICE))
        raise NoTrainingImage(
            f"image '{name}' has no tag for {device}; it has {held}",
            hint=f"use another instance type, or add one to containers/images/{name}/lock.toml",
        )
    return f"{account}.dkr.ecr.{region}.amazonaws.com/{published['repository']}:{published[device]}"


_NO_DEVICE = {"repository"}


def _published(containers: Path, name: str) -> Mapping[str, str]:
    path = containers / "images" / name / "lock.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("registry") if path.is_file() else None
    if not isinstance(table, dict) or "repository" not in table:
        raise NoTrainingImage(
            f"containers/images/{name} is no image of a registry",
            hint="use sagemaker-pytorch, or write its [registry]",
        )
    return table
