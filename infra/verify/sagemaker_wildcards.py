"""The wildcards in the execution role of a SageMaker cluster: where, what, and why they are accepted."""

from __future__ import annotations

_ROLE = "Access/Execution/Policy/Resource"

SAGEMAKER_WILDCARDS = (
    (
        _ROLE,
        r"\*",
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData and EC2's questions take no resource",
    ),
    (
        _ROLE,
        r"[^*]+/(code|data|datasets|jobs|sources)/\*",
        "what training jobs read and write, under prefixes of one bucket",
    ),
    (
        _ROLE,
        r"arn:aws:logs:[^*]+:log-group:/aws/sagemaker/TrainingJobs:log-stream:\*",
        "streams of SageMaker's one log group, named by job and instance",
    ),
    (
        _ROLE,
        r"arn:aws:ec2:[^*/]+:network-interface/\*",
        "SageMaker makes an interface for each instance; its subnet and group are exact",
    ),
    (
        _ROLE,
        r"arn:aws:ecr:[^*/]+:repository/\*",
        "a job may name any image of this account, and only pulls it",
    ),
)
