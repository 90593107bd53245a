"""Each wildcard that policies may have, and why: `*` by its action, all others by policy and resource.

nag.py accepts what is here of what cdk-nag finds; rules/permissions.py refuses `*` for every other action.
"""

from __future__ import annotations

from collections.abc import Mapping

# The Service Authorization Reference lists no resource type for these actions, or AWS's own policies for such
# machines and jobs name none. By reason:
ANY_RESOURCE_REASONS: Mapping[str, str] = {
    "EC2's questions about what there is take no resource": """
        ec2:DescribeDhcpOptions ec2:DescribeImages ec2:DescribeInstanceStatus
        ec2:DescribeInstanceTypeOfferings ec2:DescribeInstanceTypes ec2:DescribeInstances
        ec2:DescribeNetworkInterfaces ec2:DescribeSecurityGroups ec2:DescribeSnapshots
        ec2:DescribeSubnets ec2:DescribeTags ec2:DescribeVpcs
    """,
    "the call names a permission and no interface": "ec2:DeleteNetworkInterfacePermission",
    "Session Manager: the agent talks to the service itself, no resource exists": """
        ec2messages:AcknowledgeMessage ec2messages:DeleteMessage ec2messages:FailMessage
        ec2messages:GetEndpoint ec2messages:GetMessages ec2messages:SendReply ssm:ListAssociations
        ssm:ListInstanceAssociations ssm:UpdateInstanceInformation ssmmessages:CreateControlChannel
        ssmmessages:CreateDataChannel ssmmessages:OpenControlChannel ssmmessages:OpenDataChannel
    """,
    "Systems Manager's questions about what was run take no resource": """
        ssm:DescribeInstanceInformation ssm:GetCommandInvocation ssm:ListCommandInvocations ssm:ListCommands
    """,
    "Batch's questions about jobs take no resource": "batch:DescribeJobs",
    "CloudWatch Logs' question about groups takes no resource": "logs:DescribeLogGroups",
    "FSx's questions take no resource": "fsx:DescribeFileSystems",
    "an instance registers before it knows its group": "pcs:RegisterComputeNodeGroupInstance",
    "metrics are no resources; the policy limits the namespace instead": "cloudwatch:PutMetricData",
    "one log-in for the whole registry": "ecr:GetAuthorizationToken",
    "the agent asks where its cluster is, before it has one": "ecs:DiscoverPollEndpoint",
    "the question about all that has a tag takes no resource": "tag:GetResources",
}
ANY_RESOURCE = frozenset(" ".join(ANY_RESOURCE_REASONS.values()).split())
_ANY = {r"\*": "its actions take no other resource, each for its own reason"}

_PARTITION = "(aws|<AWS::Partition>)"
_EC2 = rf"arn:{_PARTITION}:ec2:[a-z0-9-]+:[^*/]*:"
_GROUP = r"arn:aws:logs:[a-z0-9-]+:[^*]+"
_STREAMS = rf"{_GROUP}:log-stream:\*"
_ANY_IMAGE = r"arn:aws:ecr:[^*/]+:repository/\*"
_OBJECTS = r"[^*]+/(code|datasets|jobs|sources)/\*"
_JOBS = {_OBJECTS: "what jobs and who submits them read and write, under prefixes of one bucket"}
_REQUESTS = r"[^*]+/jobs/\*/request\.json"
_NODE_GROUP = {
    r"arn:aws:autoscaling:[^*]+:autoScalingGroup:\*:autoScalingGroupName/[a-z0-9-]+": (
        "Auto Scaling makes up an id in the middle of the ARN; the group's name behind it is exact"
    )
}
_OF_COMMANDS = {rf"{_GROUP}:log-group:[^*]+:\*": "streams of one log group, one a command and a node of it"}
_PCS = {
    **_ANY,
    _ANY_IMAGE: "a job may name any image of this account, or of AWS's own registry, and only pulls it",
}

# By the policy's path in its stack, and by a pattern of the resource. The roles of bakeries come first.
WILDCARDS: Mapping[str, Mapping[str, str]] = {
    "Pipeline/Machine": {
        **_ANY,
        _STREAMS: "streams of one log group, one a bake",
        rf"arn:{_PARTITION}:s3:::ec2imagebuilder\*": "Image Builder's own tools, in a bucket that AWS names",
        r"[^*]+/[a-z0-9-]+/\*": "logs of one image, under its prefix of one bucket",
    },
    "Pipeline/Execution": {
        **_ANY,
        _STREAMS: "streams of one log group, one a bake",
        rf"{_EC2}network-interface/\*": "made with a machine, whose subnet and security group are named",
        rf"{_EC2}(image|snapshot|instance|volume)/\*": (
            "EC2 makes their ids up: any image is a parent, copied or tagged; all else is told by its tag"
        ),
        r"arn:aws:events:[^*]+:rule/ImageBuilder-\*": "the rules by which Image Builder awaits steps",
    },
    "Pipeline/Lifecycle": {
        **_ANY,
        rf"{_EC2}(image|snapshot)/\*": "made by Image Builder, and only what carries its tag",
        r"arn:aws:imagebuilder:[^*]+:image/slipway-bakery-[a-z0-9-]+/\*": "images of one recipe, one a bake",
    },
    "FlowLogs/Role": {_STREAMS: "streams of one log group, named by the VPC"},
    "Project/Role": {
        _STREAMS: "streams of one log group, named by CodeBuild",
        r"[^*]+/builds/\*": "sources of images, under one prefix",
        **_ANY,
    },
    "Access/Node": {
        **_ANY,
        r"arn:aws:ecs:[^*/]+:(cluster|container-instance)/\*": (
            "AWS Batch names the ECS cluster and ECS the nodes in it, both after this policy is made"
        ),
    },
    "Access/Execution": {  # of Batch and of SageMaker
        **_ANY,
        _ANY_IMAGE: "a job may name any image of this account, and only pulls it",
        _STREAMS: "streams of one log group, one a container, or a job's instance",
        r"arn:aws:ec2:[^*/]+:network-interface/\*": (
            "SageMaker makes an interface for each instance; its subnet and group are exact"
        ),
        **_JOBS,
    },
    "Access/Job": _JOBS,
    "Stuck/Runbook": {
        **_ANY,
        r"arn:aws:batch:[^*]+:job/\*": (
            "jobs are named by ids that Batch makes up; a condition limits it to those tagged for the cluster"
        ),
    },
    "Stuck/Rule": {
        r"arn:aws:ssm:[^*]+:automation-execution/\*": (
            "Systems Manager makes up the id of what it starts; the runbook beside it is exact"
        ),
    },
    "Access/Machine": {
        **_ANY,
        _REQUESTS: "what is submitted, by its name",
        **_NODE_GROUP,
        **_OF_COMMANDS,
    },
    "Access/Jobs": {**_ANY, **_NODE_GROUP, **_JOBS},
    "Access/Machine/Role": {**_PCS, **_JOBS, _STREAMS: "streams of one log group, one a node of a job"},
    "Access/Login/Role": {
        **_PCS,
        rf"([^*]+/code/\*|{_REQUESTS})": "what is submitted: requests by job, code by digest",
        **_OF_COMMANDS,
    },
}
