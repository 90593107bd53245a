"""Image Builder of the yard works through boto3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard

ACCOUNT_ARN = "arn:aws:imagebuilder:us-east-1:123456789012"
DATA = "name: driver\nschemaVersion: 1.0\nphases: []\n"


@pytest.fixture
def builder(yard: RunningYard) -> Any:
    return yard.client("imagebuilder")


def component(builder: Any, version: str = "1.0.0", **more: Any) -> str:
    made = builder.create_component(
        name="Gaudi Driver", semanticVersion=version, platform="Linux", data=DATA, **more
    )
    return str(made["componentBuildVersionArn"])


def recipe(builder: Any, component_arn: str) -> str:
    made = builder.create_image_recipe(
        name="gaudi",
        semanticVersion="1.0.0",
        parentImage="ami-12c6146b",
        components=[{"componentArn": component_arn}],
    )
    return str(made["imageRecipeArn"])


def infrastructure(builder: Any, **more: Any) -> str:
    made = builder.create_infrastructure_configuration(name="small", instanceProfileName="builder", **more)
    return str(made["infrastructureConfigurationArn"])


def test_a_component_keeps_its_document_under_the_arn_of_its_version(builder: Any) -> None:
    arn = component(builder, "1.2.3", tags={"a": "b"})
    assert arn == f"{ACCOUNT_ARN}:component/gaudi-driver/1.2.3/1"
    answer = builder.get_component(componentBuildVersionArn=arn)
    found = answer["component"]
    assert (found["name"], found["version"], found["data"]) == ("Gaudi Driver", "1.2.3", DATA)
    assert (found["type"], found["platform"], found["owner"]) == ("BUILD", "Linux", "123456789012")
    assert found["tags"] == {"a": "b"}
    assert found["dateCreated"].endswith("Z")
    assert answer["requestId"]


def test_a_version_is_created_once(builder: Any) -> None:
    arn = component(builder)
    refused = refusal(lambda: component(builder))
    assert refused["Code"] == "ResourceAlreadyExistsException"
    assert refused["Message"] == f"The following resource 'Component' already exists: '{arn}'."
    component(builder, "1.0.1")
    versions = builder.list_components(owner="Self")["componentVersionList"]
    assert [version["arn"].rpartition("/")[2] for version in versions] == ["1.0.0", "1.0.1"]
    builds = builder.list_component_build_versions(componentVersionArn=versions[0]["arn"])
    assert [build["version"] for build in builds["componentSummaryList"]] == ["1.0.0"]
    assert builder.list_components(owner="Amazon")["componentVersionList"] == []


@pytest.mark.parametrize("reference", ["1.0.0/1", "1.0.0", "1.x.x", "x.x.x"])
def test_a_recipe_may_name_a_component_by_any_form_of_its_version(builder: Any, reference: str) -> None:
    component(builder)
    made = recipe(builder, f"{ACCOUNT_ARN}:component/gaudi-driver/{reference}")
    assert made == f"{ACCOUNT_ARN}:image-recipe/gaudi/1.0.0"


@pytest.mark.parametrize("reference", ["2.x.x", "1.0.1", "1.0.0/2"])
def test_a_recipe_of_a_component_that_is_not_there_is_refused(builder: Any, reference: str) -> None:
    component(builder)
    refused = refusal(lambda: recipe(builder, f"{ACCOUNT_ARN}:component/gaudi-driver/{reference}"))
    assert refused["Code"] == "InvalidParameterValueException"


def test_components_of_aws_are_taken_on_trust(builder: Any) -> None:
    recipe(builder, "arn:aws:imagebuilder:us-east-1:aws:component/update-linux/x.x.x")


def test_what_is_used_is_not_deleted(builder: Any) -> None:
    part = component(builder)
    whole = recipe(builder, part)
    refused = refusal(builder.delete_component, componentBuildVersionArn=part)
    words = f"Resource dependency error: The resource ARN '{part}' has other resources depended on it."
    assert refused["Code"] == "ResourceDependencyException"
    assert refused["Message"] == f"{words} They are {whole}."
    assert builder.delete_image_recipe(imageRecipeArn=whole)["imageRecipeArn"] == whole
    builder.delete_component(componentBuildVersionArn=part)
    gone = refusal(builder.get_component, componentBuildVersionArn=part)
    assert (gone["Code"], gone["status"]) == ("ResourceNotFoundException", 404)


def test_an_update_writes_a_configuration_anew(builder: Any) -> None:
    arn = infrastructure(builder, instanceTypes=["c6i.large"], description="old", tags={"kept": "yes"})
    builder.update_infrastructure_configuration(
        infrastructureConfigurationArn=arn, instanceProfileName="other", instanceTypes=["c6i.xlarge"]
    )
    found = builder.get_infrastructure_configuration(infrastructureConfigurationArn=arn)
    configuration = found["infrastructureConfiguration"]
    assert configuration["instanceTypes"] == ["c6i.xlarge"]
    assert "description" not in configuration
    assert (configuration["name"], configuration["tags"]) == ("small", {"kept": "yes"})


def test_a_pipeline_holds_together_what_it_is_made_of(builder: Any) -> None:
    whole, where = recipe(builder, component(builder)), infrastructure(builder)
    spread = builder.create_distribution_configuration(
        name="home",
        distributions=[{"region": "us-east-1", "amiDistributionConfiguration": {"name": "gaudi"}}],
    )["distributionConfigurationArn"]
    pipeline = builder.create_image_pipeline(
        name="nightly",
        imageRecipeArn=whole,
        infrastructureConfigurationArn=where,
        distributionConfigurationArn=spread,
    )["imagePipelineArn"]
    found = builder.get_image_pipeline(imagePipelineArn=pipeline)["imagePipeline"]
    assert (found["imageRecipeArn"], found["status"]) == (whole, "ENABLED")
    for operation, arn in (
        (builder.delete_infrastructure_configuration, {"infrastructureConfigurationArn": where}),
        (builder.delete_distribution_configuration, {"distributionConfigurationArn": spread}),
    ):
        assert refusal(operation, **arn)["Code"] == "ResourceDependencyException"
    builder.update_image_pipeline(
        imagePipelineArn=pipeline,
        imageRecipeArn=whole,
        infrastructureConfigurationArn=where,
        status="DISABLED",
    )
    builder.delete_distribution_configuration(distributionConfigurationArn=spread)
    (listed,) = builder.list_image_pipelines(filters=[{"name": "name", "values": ["nightly"]}])[
        "imagePipelineList"
    ]
    assert listed["status"] == "DISABLED"


def test_a_dry_run_creates_nothing(builder: Any) -> None:
    assert refusal(lambda: component(builder, dryRun=True))["Code"] == "DryRunOperationException"
    assert builder.list_components()["componentVersionList"] == []
