"""Which run of which job this is: what keeps attempts and jobs from taking each other for themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from slipway.containers.runtime import values
from slipway.containers.runtime.contract import variables

Environment = Mapping[str, str]

DEFAULT_RUN = "local"

# The first that is set. Batch's children of a multi-node job carry "#1", "#2" after the id they share.
_RUN_IDS = (variables.RUN, "AWS_BATCH_JOB_ID", "SLURM_JOB_ID", "TRAINING_JOB_NAME", variables.JOB)

# Variable and what its first attempt is numbered.
_ATTEMPTS = (
    (variables.ATTEMPT, 1),
    ("AWS_BATCH_JOB_ATTEMPT", 1),
    ("SLURM_RESTART_COUNT", 0),
    ("TORCHELASTIC_RESTART_COUNT", 0),
)

# Below Linux's ephemeral ports (32768 up), so that no outgoing connection holds one by chance.
_FIRST_PORT, _PORTS = 20_000, 12_000


def run(environment: Environment) -> str:
    name = next((name for name in _RUN_IDS if name in environment), None)
    if name is None:
        return DEFAULT_RUN
    return values.identifier(environment, name).split("#", 1)[0] or DEFAULT_RUN


def job(environment: Environment) -> str:
    return values.identifier(environment, variables.JOB) if variables.JOB in environment else run(environment)


def attempt(environment: Environment) -> int:
    for name, first in _ATTEMPTS:
        if name in environment:
            return values.whole(environment, name, low=first, high=values.LARGEST_ATTEMPT) - first + 1
    return 1


def port(environment: Environment) -> int:
    """Compute the main port from the run, so that all nodes get the same one and two runs on one machine
    differ."""
    digest = hashlib.sha256(f"{run(environment)}\0{attempt(environment)}".encode()).digest()
    derived = _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS
    return values.whole(environment, variables.PORT, low=1, high=values.LARGEST_PORT, default=derived)
