"""Rules for policies: no action with a wildcard, and a resource of * only for actions that take no other."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.verify.rules.template import Properties, Source, Template, as_list, checks, resources
from slipway.infra.verify.wildcards import ANY_RESOURCE

_IDENTITY_TYPES = ("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role")
_RESOURCE_TYPES = (
    "AWS::EC2::VPCEndpoint",
    "AWS::EFS::FileSystem",
    "AWS::S3::BucketPolicy",
    "AWS::SecretsManager::ResourcePolicy",
    "AWS::SNS::TopicPolicy",
)


def _allowed(*types: str) -> Source:
    """Return the source of the statements of these types that allow something."""

    def statements(template: Template) -> Iterator[tuple[str, Properties]]:
        for name, properties in resources(template, *types):
            named = ("PolicyDocument", "FileSystemPolicy", "ResourcePolicy")
            documents = [properties.get(each) for each in named]
            documents += [each.get("PolicyDocument") for each in as_list(properties.get("Policies"))]
            for document in filter(None, documents):
                allowed = (each for each in as_list(document["Statement"]) if each["Effect"] == "Allow")
                yield from ((name, statement) for statement in allowed)

    return statements


@checks("policy-actions", source=_allowed(*_IDENTITY_TYPES, *_RESOURCE_TYPES))
def actions_are_spelled_out(statement: Properties) -> Iterator[str]:
    """Refuse wildcards, except in keys' own policies, which begin with kms:* by AWS's design."""
    for action in as_list(statement.get("Action")):
        if "*" in action:
            yield f"allows {action}; spell out what is needed"
    if "NotAction" in statement:
        yield "allows by NotAction; spell out what is needed"


@checks("policy-any-resource", source=_allowed(*_IDENTITY_TYPES))
def any_resource_is_accounted_for(statement: Properties) -> Iterator[str]:
    if "*" in as_list(statement.get("Resource")):
        for action in as_list(statement.get("Action")):
            if action not in ANY_RESOURCE:
                yield f"allows {action} on *; name the resource"


@checks("policy-no-full-access", "AWS::IAM::Role")
def no_full_access(properties: Properties) -> Iterator[str]:
    for arn in map(str, as_list(properties.get("ManagedPolicyArns"))):
        if "FullAccess" in arn or "AdministratorAccess" in arn:
            yield f"has {arn}; write a policy of its own"
