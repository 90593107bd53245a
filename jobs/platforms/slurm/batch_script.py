"""The batch scripts of a job and what sbatch is told beside them: pure text, quoted for a shell.

A script sets the variables of the job and becomes one program, node/train.py, which does the rest in the same
way for scripts that a person hands to sbatch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from slipway.jobs.words.slurm.places import NODE_MODULE, PYTHON
from slipway.jobs.words.slurm.slurm_job import COMPILE, comment

_MINUTE_SECONDS = 60
# How long before the end of its time a job is warned, so that ranks save; of a short job, a part of its time.
WARNING_SECONDS = 300
_WARNING_SHARE = 4
# Of the warning: what ranks have to save, before the time is over for everybody.
_GRACE_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """Describes what one batch script does."""

    name: str
    phase: str
    queue: str
    nodes: int
    array: str | None  # as sbatch takes it
    timeout_seconds: int
    attempts: int
    ranks_per_node: int
    folder: str  # of the run, where all nodes and the login node find it
    code: str  # the folder of the job's code, likewise
    module: str
    recipe: str
    settings: Sequence[str]  # key=value
    environment: Mapping[str, str]


def warning_seconds(timeout_seconds: int) -> int:
    """Return how long before its end a job is warned."""
    return min(WARNING_SECONDS, timeout_seconds // _WARNING_SHARE)


def grace_seconds(timeout_seconds: int) -> int:
    """Return how long ranks have to save after the warning."""
    return int(warning_seconds(timeout_seconds) * _GRACE_SHARE)


def sbatch_options(work: BatchWork) -> tuple[str, ...]:
    """Return all that sbatch is told, but for which jobs to wait for: their ids are Slurm's."""
    suffix = f"-{COMPILE}" if work.phase == COMPILE else ""
    return (
        f"--job-name={work.name}{suffix}",
        f"--comment={comment(work.name, work.phase)}",
        f"--partition={work.queue}",
        f"--nodes={work.nodes}",
        *([f"--array={work.array}"] if work.array else []),
        "--ntasks-per-node=1",  # a launcher, which starts the ranks
        "--exclusive",
        "--mem=0",  # all that the node has
        "--wait-all-nodes=1",  # that Slurm starts for this job
        f"--time={math.ceil(work.timeout_seconds / _MINUTE_SECONDS)}",
        f"--signal=B:USR1@{warning_seconds(work.timeout_seconds)}",
        "--requeue",
        "--open-mode=append",  # another attempt does not wipe out the log of the one before
        f"--output={work.folder}/{work.phase}-%j.log",
        f"--chdir={work.folder}",
        "--export=NIL",  # a job is what was submitted, whatever the submitter's shell holds
    )


def batch_script(work: BatchWork) -> str:
    words = [
        *(PYTHON, "-m", NODE_MODULE, "train"),
        *("--phase", work.phase),
        *("--attempts", str(work.attempts)),
        *("--ranks-per-node", str(work.ranks_per_node)),
        *("--folder", work.folder),
        *("--code", work.code),
        *("--module", work.module),
        *("--", work.recipe, *work.settings),
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Written by Slipway for {work.name}; Slurm runs it again for every attempt.",
            *_exports(work.environment),
            f"exec {' '.join(map(quote, words))}",
            "",
        ]
    )


def _exports(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each variable; the names are ours, the values anybody's."""
    for name, value in sorted(environment.items()):
        assert name.isidentifier(), f"no name of a variable: {name!r}"
        yield f"export {name}={quote(value)}"
