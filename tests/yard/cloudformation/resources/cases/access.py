"""Who may do what, and the keys and secrets of it."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases.case import OTHER_TAGS, TAGS, Case, Cases
from tests.yard.cloudformation.resources.world import TRUST, World, allow


def role(_world: World) -> Case:
    return Case(
        properties={
            "AssumeRolePolicyDocument": TRUST,
            "Description": "runs the nodes",
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"],
            "Policies": [{"PolicyName": "data", "PolicyDocument": allow("s3:GetObject")}],
            "Tags": TAGS,
        },
        change={
            "Policies": [{"PolicyName": "data", "PolicyDocument": allow("s3:PutObject")}],
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"],
            "Description": "runs the nodes of dl1",
        },
    )


def policy(world: World) -> Case:
    return Case(
        properties={
            "PolicyName": "logs",
            "PolicyDocument": allow("logs:PutLogEvents"),
            "Roles": [world.role().id],
        },
        change={"PolicyDocument": allow("logs:*")},
    )


def managed_policy(world: World) -> Case:
    return Case(
        properties={
            "Description": "boundary",
            "PolicyDocument": allow("s3:GetObject"),
            "Roles": [world.role().id],
        },
        change={"PolicyDocument": allow("s3:*")},
    )


def instance_profile(world: World) -> Case:
    other = world.make("AWS::IAM::Role", AssumeRolePolicyDocument=TRUST)
    return Case(properties={"Roles": [world.role().id]}, change={"Roles": [other.id]})


def service_linked_role(_world: World) -> Case:
    return Case(
        properties={"AWSServiceName": "fsx.amazonaws.com", "Description": "for FSx"},
        change={"Description": "for FSx for Lustre"},
    )


def key(_world: World) -> Case:
    return Case(
        properties={
            "Description": "data of the cluster",
            "EnableKeyRotation": True,
            "KeyPolicy": allow("kms:*"),
            "PendingWindowInDays": 7,
            "Tags": TAGS,
        },
        change={"Description": "data", "EnableKeyRotation": False, "Tags": OTHER_TAGS},
    )


def alias(world: World) -> Case:
    other = world.make("AWS::KMS::Key", KeyPolicy=allow("kms:*"))
    return Case(
        properties={"AliasName": "alias/slipway-trial", "TargetKeyId": world.key().id},
        change={"TargetKeyId": other.id},
    )


def secret(_world: World) -> Case:
    generated = {
        "SecretStringTemplate": '{"user": "slurm"}',
        "GenerateStringKey": "password",
        "PasswordLength": 20,
    }
    return Case(
        properties={"Description": "slurm", "GenerateSecretString": generated, "Tags": TAGS},
        change={"Description": "slurm accounting", "Tags": OTHER_TAGS},
    )


def secret_policy(world: World) -> Case:
    owner = world.make("AWS::SecretsManager::Secret", SecretString="x")
    return Case(
        properties={"SecretId": owner.id, "ResourcePolicy": allow("secretsmanager:GetSecretValue")},
        change={"ResourcePolicy": allow("secretsmanager:*")},
    )


CASES: Cases = {
    "AWS::IAM::Role": role,
    "AWS::IAM::Policy": policy,
    "AWS::IAM::ManagedPolicy": managed_policy,
    "AWS::IAM::InstanceProfile": instance_profile,
    "AWS::IAM::ServiceLinkedRole": service_linked_role,
    "AWS::KMS::Key": key,
    "AWS::KMS::Alias": alias,
    "AWS::SecretsManager::Secret": secret,
    "AWS::SecretsManager::ResourcePolicy": secret_policy,
}
