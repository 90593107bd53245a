"""The wildcards in the role of nodes on HyperPod: where, what, and why they are accepted."""

from __future__ import annotations

_ROLE = "Access/HyperPod/Policy/Resource"

HYPERPOD_WILDCARDS = (
    (_ROLE, r"\*", "Session Manager, cloudwatch:PutMetricData and EC2's questions take no resource"),
    (
        _ROLE,
        r"arn:aws:s3:::cdk-[^*]+/sagemaker-lifecycle/[^*]+/\*",
        "what HyperPod copies to a new node, under one prefix that its content names",
    ),
    (
        _ROLE,
        r"arn:aws:logs:[^*]+:log-group:/aws/sagemaker/Clusters/[^*]+/\*(:log-stream:\*)?",
        "HyperPod ends the name of this cluster's log group in an id, made after this policy",
    ),
    (
        _ROLE,
        r"arn:aws:logs:[^*]+:log-group:[^*]+:log-stream:\*",
        "streams of one log group, one a node of a job",
    ),
    (
        _ROLE,
        r"arn:aws:ec2:[^*/]+:network-interface/\*",
        "HyperPod makes an interface for each node; its subnet and group are exact",
    ),
    (
        _ROLE,
        r"[^*]+/(code|data|datasets|jobs)/\*",
        "what jobs of Slurm read and write, under prefixes of one bucket",
    ),
)
