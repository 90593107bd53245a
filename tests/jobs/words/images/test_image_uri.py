"""A job may name container images of the account's registry, by tag or digest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.words.images.containers import read_image
from slipway.jobs.words.job import DoesNotFit
from tests.jobs.words.test_targets import SAGEMAKER_TARGET, TARGET

OWN = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
DIGEST = "sha256:" + "a" * 64


def test_an_image_of_the_accounts_registry_is_taken_apart() -> None:
    image = read_image(f"{OWN}/team/vision:2", TARGET)
    assert (image.repository, image.tag, image.digest) == ("team/vision", "2", None)
    assert image.pinned(DIGEST) == f"{OWN}/team/vision@{DIGEST}"
    assert read_image(f"{OWN}/vision@{DIGEST}", TARGET).digest == DIGEST


@pytest.mark.parametrize(
    "uri",
    [
        f"{OWN}/vision",
        f"{OWN}/vision:",
        "vision:2",
        f"{OWN}/Vision:2",
        f"{OWN}/vision:2 --privileged",
        "/",
        "",
    ],
)
def test_what_names_no_image_is_refused_with_what_one_looks_like(uri: str) -> None:
    with pytest.raises(DoesNotFit, match=f"is no image; one is {OWN}/REPOSITORY:TAG"):
        read_image(uri, TARGET)


@pytest.mark.parametrize(
    "registry",
    [
        "docker.io/library",
        "999999999999.dkr.ecr.us-east-1.amazonaws.com",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        f"{OWN}.evil.example",
    ],
)
def test_an_image_that_no_role_of_the_cluster_may_pull_is_refused(registry: str) -> None:
    with pytest.raises(DoesNotFit, match=f"may pull from {OWN} alone"):
        read_image(f"{registry}/python:3.12", TARGET)


def test_another_tag_of_the_image_that_a_sagemaker_cluster_declares_is_taken() -> None:
    declared = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training"
    target = replace(SAGEMAKER_TARGET, image=f"{declared}:2.5")
    assert read_image(f"{declared}:2.6", target).tag == "2.6"
    with pytest.raises(DoesNotFit):
        read_image(f"{declared}-other:2.6", target)
