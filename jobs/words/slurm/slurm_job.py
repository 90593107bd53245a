"""What a job on a Slurm cluster is: decided where it is submitted, read by the login node from S3.

The SHA-256 of its request travels with the command, so that the login node submits
these bytes or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from slipway.jobs.words.job_request import (
    NAME,
    Check,
    are_texts,
    decode_request,
    encode_request,
    is_count,
    is_digest,
    is_text,
    matches,
)

SCHEMA_VERSION = 1
JOB_ID = "[0-9]{1,10}(_[0-9]{1,7})?"
COMPILE, RUN = "compile", "run"

_ARRAY = re.compile(r"--array=0-([0-9]+)", re.ASCII)
_COMMENT = re.compile(rf"slipway:({NAME})(/{COMPILE})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmBatch:
    """Holds one batch script, and what sbatch is told beside it."""

    phase: str  # COMPILE or RUN
    options: tuple[str, ...]
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    name: str
    recipe: str
    nodes: int
    arguments: tuple[str, ...]  # of the recipe, for whoever reads what became of the job
    code: str  # SHA-256 of the bundle that holds the recipe
    attempts: int
    batches: tuple[SlurmBatch, ...]  # each waits for the one before; the last is the job
    depends_on: tuple[str, ...]  # Slurm's ids of the jobs that have to succeed first

    @property
    def elements(self) -> int:
        """Return how many jobs the last batch becomes; 1 where it is no array."""
        found = [_ARRAY.match(option) for option in self.batches[-1].options]
        return max((int(array[1]) + 1 for array in found if array), default=1)


def comment(name: str, phase: str) -> str:
    """Return the comment by which a submission is found in Slurm again."""
    return f"slipway:{name}" + (f"/{COMPILE}" if phase == COMPILE else "")


def read_comment(text: str) -> tuple[str, str] | None:
    """Return the submission's name and the phase that a comment tells; None if the job is not ours."""
    found = _COMMENT.fullmatch(text)
    return (found[1], COMPILE if found[2] else RUN) if found else None


def array_of(job_id: str) -> str:
    """Return the id of the array that an element such as 7_0 is of; any other job's own."""
    return job_id.partition("_")[0]


def encode(job: SlurmJob) -> str:
    return encode_request(SCHEMA_VERSION, asdict(job))


def decode(text: str, *, where: str) -> SlurmJob:
    """Decode a request; `where` names it in errors."""
    record = decode_request(text, SCHEMA_VERSION, _CHECKS, where=where, reader="login node has")
    batches = tuple(SlurmBatch(**{**each, "options": tuple(each["options"])}) for each in record["batches"])
    texts = {name: tuple(record[name]) for name in ("arguments", "depends_on")}
    return SlurmJob(**{**record, **texts, "batches": batches})


def _is_batch(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"phase", "options", "script"}
        and value["phase"] in (COMPILE, RUN)
        and are_texts(value["options"])
        and is_text(value["script"])
    )


_CHECKS: Mapping[str, Check] = {
    "name": matches(NAME),
    "recipe": is_text,
    "code": is_digest,
    **dict.fromkeys(("nodes", "attempts"), is_count(1)),
    "arguments": are_texts,
    "depends_on": lambda value: are_texts(value) and all(map(matches(JOB_ID), value)),
    "batches": lambda value: isinstance(value, list) and bool(value) and all(map(_is_batch, value)),
}
