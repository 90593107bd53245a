"""SageMaker."""

from __future__ import annotations

from collections.abc import Mapping

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


def hyperpod(world: World) -> Case:
    def group(name: str, node_type: str, count: int) -> Mapping[str, object]:
        return {
            "InstanceGroupName": name,
            "InstanceType": "ml.trn1.32xlarge",
            "InstanceCount": count,
            "ThreadsPerCore": 1,
            "ExecutionRole": world.role().attribute("Arn"),
            "SlurmConfig": {"NodeType": node_type},
        }

    controller = group("controller", "Controller", 1)
    return Case(
        properties={
            "InstanceGroups": [controller, group("workers", "Compute", 2)],
            "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Managed"}},
            "NodeRecovery": "Automatic",
            "Tags": TAGS,
        },
        change={
            "InstanceGroups": [controller, group("more", "Compute", 3)],
            "NodeRecovery": "None",
            "Tags": OTHER_TAGS,
        },
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
    "AWS::SageMaker::Cluster": hyperpod,
    "AWS::SageMaker::Pipeline": pipeline,
    "AWS::SageMaker::ModelPackageGroup": model_package_group,
}
