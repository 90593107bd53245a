"""Resource types of Image Builder: components, recipes, configurations and pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway.yard.cloudformation.resources.api import (
    ApiResource,
    Name,
    call,
    changeable,
    find,
    mirrored,
    shaped,
    tags,
)
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.resources.recorded import Form, SchemaRecord
from slipway.yard.cloudformation.resources.scope import (
    ID,
    Expression,
    ResourceScope,
    live,
    response,
    snake,
    text,
)

NAME = Name(property="Name", limit=126)
INFRASTRUCTURE_PROPERTIES = (
    "Description InstanceMetadataOptions InstanceProfileName InstanceTypes KeyPair Logging Placement "
    "ResourceTags SecurityGroupIds SnsTopicArn SubnetId TerminateInstanceOnFailure"
)
PIPELINE_PROPERTIES = (
    "ContainerRecipeArn Description DistributionConfigurationArn EnhancedImageMetadataEnabled "
    "ExecutionRole ImageRecipeArn ImageScanningConfiguration ImageTags ImageTestsConfiguration "
    "InfrastructureConfigurationArn LoggingConfiguration Schedule Status Workflows"
)


def latest(part: str) -> Expression:
    """Return an expression for the ARN of the newest version, with x for each number that may rise."""
    kept = {"Arn": 0, "Major": 1, "Minor": 2, "Patch": 3}[part]

    def arn(scope: ResourceScope) -> str:
        # arn:…:component/name/1.2.3/1 → arn:…:component/name, [1, 2, 3].
        parts = scope.id.split("/")
        head, version = "/".join(parts[:2]), parts[2].split(".")
        return f"{head}/{'.'.join([*version[:kept], *('x' for _ in version[kept:])])}"

    return arn


def versioned(kind: str, arn: str, attributes: Mapping[str, Expression]) -> ApiResource:
    """Return the provider of a component or recipe: only tags can change; a new version is a new resource."""
    parameter = f"{arn}Arn"
    which: dict[str, Any] = {parameter: ID}
    parts = {f"LatestVersion.{part}": latest(part) for part in ("Arn", "Major", "Minor", "Patch")}
    return ApiResource(
        service="imagebuilder",
        name=NAME,
        create_call=shaped(f"create_{snake(kind)}", renames={"Version": "semanticVersion"}),
        identity=response(parameter),
        describe=find(f"get_{snake(kind)}", kind, **which),
        attributes={"Arn": ID, "Name": live("name"), **parts, **attributes},
        settings=(tags(resourceArn=ID),),
        delete_call=call(f"delete_{snake(kind)}", **which),
    )


def configuration(kind: str, properties: str) -> ApiResource:
    """Return the provider of a configuration, which its update call replaces as a whole."""
    parameter = f"{kind}Arn"
    which: dict[str, Any] = {parameter: ID}
    write = shaped(f"update_{snake(kind)}", **which)
    return ApiResource(
        service="imagebuilder",
        name=NAME,
        create_call=shaped(f"create_{snake(kind)}"),
        identity=response(parameter),
        describe=find(f"get_{snake(kind)}", kind, **which),
        attributes={"Arn": ID, "Name": live("name")},
        settings=(changeable(properties, put=write), tags(resourceArn=ID)),
        delete_call=call(f"delete_{snake(kind)}", **which),
        reads=mirrored(properties),
    )


COMPONENT_ATTRIBUTES = {"Type": live("type", "BUILD"), "Encrypted": live("encrypted", True)}

PROVIDERS: Mapping[str, Provider] = {
    "AWS::ImageBuilder::Component": versioned("component", "componentBuildVersion", COMPONENT_ATTRIBUTES),
    "AWS::ImageBuilder::ImageRecipe": versioned("imageRecipe", "imageRecipe", {}),
    "AWS::ImageBuilder::InfrastructureConfiguration": configuration(
        "infrastructureConfiguration", INFRASTRUCTURE_PROPERTIES
    ),
    "AWS::ImageBuilder::DistributionConfiguration": configuration(
        "distributionConfiguration", "Description Distributions"
    ),
    "AWS::ImageBuilder::ImagePipeline": configuration("imagePipeline", PIPELINE_PROPERTIES),
    "AWS::ImageBuilder::LifecyclePolicy": SchemaRecord(
        type="AWS::ImageBuilder::LifecyclePolicy",
        form=Form(
            name=NAME, identity=text("arn:aws:imagebuilder:{region}:{account}:lifecycle-policy/{Name}")
        ),
    ),
}
