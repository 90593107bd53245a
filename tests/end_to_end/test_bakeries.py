"""Bakeries of machine images are deployed into the yard."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.words.images.amis import bakery_parameter, decode_bakery
from tests.end_to_end.conftest import Shell
from tests.end_to_end.in_process import delete, deploy

pytestmark = pytest.mark.cdk

STACK, NETWORK = "slipway-bakery-gaudi-ecs", "slipway-bakery-network-us-east-1"


def stacks(shell: Shell) -> set[str]:
    found = shell.client("cloudformation").describe_stacks()["Stacks"]
    return {stack["StackName"] for stack in found if stack["StackName"].startswith("slipway-bakery")}


def test_a_bakery_is_deployed_by_its_name_and_found_by_its_record(shell: Shell, tmp_path: Path) -> None:
    assert deploy(shell, tmp_path, images=["gaudi-ecs"]) == [NETWORK, STACK]
    assert stacks(shell) == {STACK, NETWORK}
    name = bakery_parameter("gaudi-ecs")
    record = shell.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    bakery = decode_bakery(record, parameter=name)
    builder = shell.client("imagebuilder")
    pipeline = builder.get_image_pipeline(imagePipelineArn=bakery.pipeline_arn)["imagePipeline"]
    recipe = builder.get_image_recipe(imageRecipeArn=pipeline["imageRecipeArn"])["imageRecipe"]
    assert recipe["parentImage"] == bakery.parent
    assert [
        component["componentArn"].split("/")[1].removeprefix(f"{STACK}-")
        for component in recipe["components"]
    ] == [
        "base-apt",
        "ssh-hardening",
        "efa",
        "efs-utils",
        "payload",
        "node-boot",
        "habanalabs",
        "container-runtime",
        "ecs-agent",
    ]
    delete(shell, [NETWORK, STACK])
    assert stacks(shell) == set()
    assert builder.list_components(owner="Self")["componentVersionList"] == []
