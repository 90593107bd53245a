"""Parameters and documents, and what CloudFormation and the CDK add themselves."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAG_MAP, TAG_MAP, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import World


def parameter(_world: World) -> Case:
    return Case(
        properties={"Name": "/slipway/trial", "Type": "String", "Value": "one", "Tags": TAG_MAP},
        change={"Value": "two", "Tags": OTHER_TAG_MAP},
    )


def document(_world: World) -> Case:
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": ["true"]}}
    content = {"schemaVersion": "2.2", "description": "prepare", "mainSteps": [step]}
    return Case(
        properties={
            "Content": content,
            "DocumentType": "Command",
            "UpdateMethod": "NewVersion",
            "Tags": TAGS,
        },
        change={"Content": {**content, "description": "prepare a node"}},
    )


def wait_handle(_world: World) -> Case:
    return Case(properties={})


def cdk_metadata(_world: World) -> Case:
    return Case(properties={"Analytics": "v2:deflate64:abc"}, change={"Analytics": "v2:deflate64:def"})


CASES: Cases = {
    "AWS::SSM::Parameter": parameter,
    "AWS::SSM::Document": document,
    "AWS::CloudFormation::WaitConditionHandle": wait_handle,
    "AWS::CDK::Metadata": cdk_metadata,
}
