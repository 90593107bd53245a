"""What cdk-nag finds in the roles of bakeries and nag.py accepts: where, which resource, and why."""

from __future__ import annotations

_MACHINE, _EXECUTION, _LIFECYCLE = (
    f"Pipeline/{role}/Policy/Resource" for role in ("Machine", "Execution", "Lifecycle")
)
_STREAMS = r"arn:aws:logs:[a-z0-9-]+:[^*]+:log-stream:\*"
_PARTITION = "(aws|<AWS::Partition>)"
_EC2 = rf"arn:{_PARTITION}:ec2:[a-z0-9-]+:[^*/]*:"

BAKERY_WILDCARDS: tuple[tuple[str, str, str], ...] = (
    (_MACHINE, r"\*", "Session Manager takes no resource"),
    (_MACHINE, _STREAMS, "streams of one log group, one a bake"),
    (
        _MACHINE,
        rf"arn:{_PARTITION}:s3:::ec2imagebuilder\*",
        "Image Builder's own tools, in a bucket that AWS names",
    ),
    (_MACHINE, r"[^*]+/[a-z0-9-]+/\*", "logs of one image, under its prefix of one bucket"),
    (_EXECUTION, r"\*", "questions of EC2 and of Systems Manager take no resource"),
    (_EXECUTION, _STREAMS, "streams of one log group, one a bake"),
    (
        _EXECUTION,
        rf"{_EC2}network-interface/\*",
        "made with a machine, whose subnet and security group are named",
    ),
    (
        _EXECUTION,
        rf"{_EC2}(image|snapshot|instance|volume)/\*",
        "EC2 makes their ids up: any image is a parent, copied or tagged; all else is told by its tag",
    ),
    (
        _EXECUTION,
        r"arn:aws:events:[^*]+:rule/ImageBuilder-\*",
        "the rules by which Image Builder awaits steps",
    ),
    (_LIFECYCLE, r"\*", "questions of EC2 and of tagging take no resource"),
    (_LIFECYCLE, rf"{_EC2}(image|snapshot)/\*", "made by Image Builder, and only what carries its tag"),
    (
        _LIFECYCLE,
        r"arn:aws:imagebuilder:[^*]+:image/slipway-bakery-[a-z0-9-]+/\*",
        "the images of one recipe, one a bake",
    ),
)


# The wildcards in the execution role of a SageMaker cluster: where, what, and why they are accepted.
_ROLE = "Access/Execution/Policy/Resource"

SAGEMAKER_WILDCARDS = (
    (
        _ROLE,
        r"\*",
        "ecr:GetAuthorizationToken, cloudwatch:PutMetricData and EC2's questions take no resource",
    ),
    (
        _ROLE,
        r"[^*]+/(code|datasets|jobs|sources)/\*",
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


# The wildcards in the policies of a Slurm cluster's machines: where, what, and why they are accepted.
_BOTH = _WORKER, _LOGIN = ("Access/Machine/Role/Policy/Resource", "Access/Login/Role/Policy/Resource")

SLURM_WILDCARDS = (
    *(
        (path, r"\*", "Session Manager, registration with PCS and cloudwatch:PutMetricData take no resource")
        for path in _BOTH
    ),
    *(
        (
            path,
            r"arn:aws:ecr:[^*/]+:repository/\*",
            "a job may name any image of this account, or of AWS's own registry, and only pulls it",
        )
        for path in _BOTH
    ),
    (
        _WORKER,
        r"[^*]+/(code|datasets|jobs|sources)/\*",
        "what jobs of Slurm read and write, under prefixes of one bucket",
    ),
    (_LOGIN, r"[^*]+/(code/\*|jobs/\*/request\.json)", "what is submitted: requests by job, code by digest"),
    *(
        (
            path,
            r"arn:aws:logs:[a-z0-9-]+:[^*]+:log-group:[^*]+:(log-stream:)?\*",
            "streams of one log group, one a node of a job and one a command of Systems Manager",
        )
        for path in _BOTH
    ),
    (
        _LOGIN,
        r"arn:aws:logs:[a-z0-9-]+:[^*]+:log-group:\*",
        "the agent of Systems Manager looks whether the log group exists, by listing",
    ),
)
