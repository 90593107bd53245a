"""Rules for policies: no action with a wildcard, and a resource of * only for actions that take no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.infra.verify.rules.template import Finding, Template, as_list, resources
from slipway.infra.verify.wildcards import ANY_RESOURCE


def actions_are_spelled_out(template: Template) -> Iterator[Finding]:
    """Refuse wildcards, except in keys' own policies, which begin with kms:* by AWS's design."""
    for name, statement in _allowed(template, (*_IDENTITY_TYPES, *_RESOURCE_TYPES)):
        for action in as_list(statement.get("Action")):
            if "*" in action:
                yield Finding(where=name, message=f"allows {action}; spell out what is needed")
        if "NotAction" in statement:
            yield Finding(where=name, message="allows by NotAction; spell out what is needed")


def any_resource_is_accounted_for(template: Template) -> Iterator[Finding]:
    for name, statement in _allowed(template, _IDENTITY_TYPES):
        if "*" in as_list(statement.get("Resource")):
            for action in as_list(statement.get("Action")):
                if action not in ANY_RESOURCE:
                    yield Finding(where=name, message=f"allows {action} on *; name the resource")


def no_full_access(template: Template) -> Iterator[Finding]:
    for name, properties in resources(template, "AWS::IAM::Role"):
        for arn in map(str, as_list(properties.get("ManagedPolicyArns"))):
            if "FullAccess" in arn or "AdministratorAccess" in arn:
                yield Finding(where=name, message=f"has {arn}; write a policy of its own")


_IDENTITY_TYPES = ("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role")
_RESOURCE_TYPES = (
    "AWS::EC2::VPCEndpoint",
    "AWS::EFS::FileSystem",
    "AWS::S3::BucketPolicy",
    "AWS::SecretsManager::ResourcePolicy",
    "AWS::SNS::TopicPolicy",
)


def _allowed(template: Template, types: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, properties in resources(template, *types):
        named = ("PolicyDocument", "FileSystemPolicy", "ResourcePolicy")
        documents = [properties.get(each) for each in named]
        documents += [each.get("PolicyDocument") for each in as_list(properties.get("Policies"))]
        for document in filter(None, documents):
            for statement in as_list(document["Statement"]):
                if statement["Effect"] == "Allow":
                    yield name, statement
