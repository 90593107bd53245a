"""SageMaker."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World


def domain(world: World) -> Case:
    return Case(
        properties={
            "AuthMode": "IAM",
            "DomainName": "trial",
            "VpcId": world.vpc(),
            "SubnetIds": [world.subnet()],
            "DefaultUserSettings": {"ExecutionRole": world.role().attribute("Arn")},
            "Tags": TAGS,
        },
        change={"Tags": OTHER_TAGS},
    )


def pipeline(world: World) -> Case:
    return Case(
        properties={
            "PipelineName": "trial",
            "PipelineDefinition": {"PipelineDefinitionBody": '{"Version": "2020-12-01", "Steps": []}'},
            "RoleArn": world.role().attribute("Arn"),
            "Tags": TAGS,
        },
        change={"PipelineDescription": "trial"},
    )


def model_package_group(_world: World) -> Case:
    return Case(properties={"ModelPackageGroupName": "trial", "Tags": TAGS}, change={"Tags": OTHER_TAGS})


CASES: Cases = {
    "AWS::SageMaker::Domain": domain,
    "AWS::SageMaker::Pipeline": pipeline,
    "AWS::SageMaker::ModelPackageGroup": model_package_group,
}
