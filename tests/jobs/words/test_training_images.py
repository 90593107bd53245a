"""The images that AWS publishes for training, held to the SageMaker SDK's own table."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from slipway.infra.declare.machine_images import CONTAINERS
from slipway.jobs.words.images.aws_images import NoPublishedImage, published_image
from slipway.jobs.words.names import REGIONS

OUR_IMAGE = "sagemaker-pytorch"


def test_every_region_has_the_registry_that_the_sdk_names() -> None:
    found = find_spec("sagemaker")
    if found is None or found.origin is None:
        pytest.skip("the SageMaker SDK is not installed")
    table = Path(found.origin).parent / "image_uri_config" / "pytorch.json"
    versions = json.loads(table.read_text(encoding="utf-8"))["training"]["versions"]
    registries = versions["2.8.0"]["registries"]
    for region in set(REGIONS) & set(registries):
        if region.startswith(("cn-", "us-gov-", "us-iso", "eu-isoe", "eusc-")):
            continue
        uri = published_image(CONTAINERS, OUR_IMAGE, region=region, device="cuda")
        assert uri.startswith(
            f"{registries[region]}.dkr.ecr.{region}.amazonaws.com/pytorch-training:2.8.0-gpu"
        )


def test_a_type_without_accelerators_gets_the_small_image() -> None:
    assert ":2.8.0-cpu-" in published_image(CONTAINERS, OUR_IMAGE, region="us-east-1", device="cpu")


@pytest.mark.parametrize(
    ("image", "region", "device", "said"),
    [
        (OUR_IMAGE, "us-iso-east-1", "cuda", "registry of containers in us-iso-east-1 is not known"),
        (OUR_IMAGE, "us-east-1", "neuron", "has no tag for neuron; it has cpu, cuda"),
        ("gaudi", "us-east-1", "cuda", "containers/images/gaudi is no image of a registry"),
        ("nothing", "us-east-1", "cuda", "containers/images/nothing is no image of a registry"),
    ],
)
def test_an_image_that_aws_does_not_publish_is_refused(
    image: str, region: str, device: str, said: str
) -> None:
    with pytest.raises(NoPublishedImage, match=said):
        published_image(CONTAINERS, image, region=region, device=device)
