"""Each wildcard that cdk-nag finds in a policy and nag.py accepts: where, which resource, and why."""

from __future__ import annotations

from collections.abc import Mapping

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
    r"\*": "Session Manager, registration with PCS and cloudwatch:PutMetricData take no resource",
    _ANY_IMAGE: "a job may name any image of this account, or of AWS's own registry, and only pulls it",
}

# By the policy's path in its stack, and by a pattern of the resource. The roles of bakeries come first.
WILDCARDS: Mapping[str, Mapping[str, str]] = {
    "Pipeline/Machine": {
        r"\*": "Session Manager takes no resource",
        _STREAMS: "streams of one log group, one a bake",
        rf"arn:{_PARTITION}:s3:::ec2imagebuilder\*": "Image Builder's own tools, in a bucket that AWS names",
        r"[^*]+/[a-z0-9-]+/\*": "logs of one image, under its prefix of one bucket",
    },
    "Pipeline/Execution": {
        r"\*": "questions of EC2 and of Systems Manager take no resource",
        _STREAMS: "streams of one log group, one a bake",
        rf"{_EC2}network-interface/\*": "made with a machine, whose subnet and security group are named",
        rf"{_EC2}(image|snapshot|instance|volume)/\*": (
            "EC2 makes their ids up: any image is a parent, copied or tagged; all else is told by its tag"
        ),
        r"arn:aws:events:[^*]+:rule/ImageBuilder-\*": "the rules by which Image Builder awaits steps",
    },
    "Pipeline/Lifecycle": {
        r"\*": "questions of EC2 and of tagging take no resource",
        rf"{_EC2}(image|snapshot)/\*": "made by Image Builder, and only what carries its tag",
        r"arn:aws:imagebuilder:[^*]+:image/slipway-bakery-[a-z0-9-]+/\*": "images of one recipe, one a bake",
    },
    "FlowLogs/Role": {_STREAMS: "streams of one log group, named by the VPC"},
    "Project/Role": {
        _STREAMS: "streams of one log group, named by CodeBuild",
        r"[^*]+/builds/\*": "sources of images, under one prefix",
        r"\*": "ecr:GetAuthorizationToken takes no resource",
    },
    "Access/Node": {
        r"\*": "Session Manager, ecs:DiscoverPollEndpoint and cloudwatch:PutMetricData take no resource",
        r"arn:aws:ecs:[^*/]+:(cluster|container-instance)/\*": (
            "AWS Batch names the ECS cluster and ECS the nodes in it, both after this policy is made"
        ),
    },
    "Access/Execution": {  # of Batch and of SageMaker
        r"\*": "ecr:GetAuthorizationToken, cloudwatch:PutMetricData and questions take no resource",
        _ANY_IMAGE: "a job may name any image of this account, and only pulls it",
        _STREAMS: "streams of one log group, one a container, or a job's instance",
        r"arn:aws:ec2:[^*/]+:network-interface/\*": (
            "SageMaker makes an interface for each instance; its subnet and group are exact"
        ),
        **_JOBS,
    },
    "Access/Job": _JOBS,
    "Stuck/Runbook": {
        r"\*": "batch:DescribeJobs takes no resource",
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
        r"\*": "Session Manager, cloudwatch:PutMetricData, and questions of EC2 and of logs take no resource",
        _REQUESTS: "what is submitted, by its name",
        **_NODE_GROUP,
        **_OF_COMMANDS,
    },
    "Access/Jobs": {r"\*": "ec2:DescribeInstances takes no resource", **_NODE_GROUP, **_JOBS},
    "Access/Machine/Role": {**_PCS, **_JOBS, _STREAMS: "streams of one log group, one a node of a job"},
    "Access/Login/Role": {
        **_PCS,
        rf"([^*]+/code/\*|{_REQUESTS})": "what is submitted: requests by job, code by digest",
        **_OF_COMMANDS,
    },
}
