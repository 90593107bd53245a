"""Rules for policies: no action with a wildcard, and a resource of * only for actions that take no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway.infra.verify.rules.template import Finding, Template, as_list, resources

_QUESTION = "EC2's questions about what there is take no resource"
_INTERFACES = "EC2 lists no resource type for it"
_RUNS = "Systems Manager's questions about what was run take no resource"
_SESSION_MANAGER = "Session Manager: the agent talks to the service itself, no resource exists"
# The Service Authorization Reference lists no resource type for these actions.
ANY_RESOURCE: Mapping[str, str] = {
    "batch:DescribeJobs": "Batch's questions about jobs take no resource",
    "cloudwatch:PutMetricData": "metrics are no resources; the policy limits the namespace instead",
    "ec2:DeleteNetworkInterfacePermission": _INTERFACES,
    "ec2:DescribeDhcpOptions": _QUESTION,
    "ec2:DescribeImages": _QUESTION,
    "ec2:DescribeInstanceStatus": _QUESTION,
    "ec2:DescribeInstanceTypeOfferings": _QUESTION,
    "ec2:DescribeInstanceTypes": _QUESTION,
    "ec2:DescribeInstances": _QUESTION,
    "ec2:DescribeNetworkInterfaces": _QUESTION,
    "ec2:DescribeSecurityGroups": _QUESTION,
    "ec2:DescribeSnapshots": _QUESTION,
    "ec2:DescribeSubnets": _QUESTION,
    "ec2:DescribeTags": _QUESTION,
    "ec2:DescribeVpcs": _QUESTION,
    "ec2messages:AcknowledgeMessage": _SESSION_MANAGER,
    "ec2messages:DeleteMessage": _SESSION_MANAGER,
    "ec2messages:FailMessage": _SESSION_MANAGER,
    "ec2messages:GetEndpoint": _SESSION_MANAGER,
    "ec2messages:GetMessages": _SESSION_MANAGER,
    "ec2messages:SendReply": _SESSION_MANAGER,
    "ecr:GetAuthorizationToken": "one log-in for the whole registry",
    "fsx:DescribeFileSystems": "FSx's questions take no resource",
    "pcs:RegisterComputeNodeGroupInstance": "an instance registers before it knows its group",
    "logs:DescribeLogGroups": "CloudWatch Logs' question about groups takes no resource",
    "ecs:DiscoverPollEndpoint": "the agent asks where its cluster is, before it has one",
    "ssm:DescribeInstanceInformation": _RUNS,
    "ssm:GetCommandInvocation": _RUNS,
    "ssm:ListAssociations": _SESSION_MANAGER,
    "ssm:ListCommandInvocations": _RUNS,
    "ssm:ListCommands": _RUNS,
    "ssm:ListInstanceAssociations": _SESSION_MANAGER,
    "ssm:UpdateInstanceInformation": _SESSION_MANAGER,
    "ssmmessages:CreateControlChannel": _SESSION_MANAGER,
    "ssmmessages:CreateDataChannel": _SESSION_MANAGER,
    "ssmmessages:OpenControlChannel": _SESSION_MANAGER,
    "ssmmessages:OpenDataChannel": _SESSION_MANAGER,
    "tag:GetResources": "finds images and snapshots by their tag",
}


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
