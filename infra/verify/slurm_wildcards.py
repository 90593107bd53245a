"""The wildcards in the policies of a Slurm cluster's machines: where, what, and why they are accepted."""

from __future__ import annotations

_LOGIN = "Access/Login/Role/Policy/Resource"
_BOTH = ("Access/Machine/Role/Policy/Resource", _LOGIN)

SLURM_WILDCARDS = (
    *(
        (path, r"\*", "Session Manager, registration with PCS and cloudwatch:PutMetricData take no resource")
        for path in _BOTH
    ),
    *(
        (
            path,
            r"[^*]+/(code|data|datasets|jobs|sources)/\*",
            "what jobs of Slurm read and write, under prefixes of one bucket",
        )
        for path in _BOTH
    ),
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
