"""What a job on a Slurm cluster is: decided where it is submitted, read by the login node from S3.

`encode` writes jobs/<name>/request.json; its SHA-256 travels with the command, so that the login node submits
these bytes or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slipway.jobs.core.errors import SlipwayError
from slipway.jobs.core.records import refuse_newer

SCHEMA_VERSION = 1
NAME = "[A-Za-z0-9_-]{1,128}"
JOB_ID = "[0-9]{1,10}(_[0-9]{1,7})?"
COMPILE, RUN = "compile", "run"

_KEY = re.compile(rf"jobs/({NAME})/request\.json", re.ASCII)
_COMMENT = re.compile(rf"slipway:({NAME})(/{COMPILE})?", re.ASCII)


class DamagedSlurmRequest(SlipwayError):
    """Slipway did not write this request, or something else changed it since."""


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


def request_key(name: str) -> str:
    return f"jobs/{name}/request.json"


def name_of(key: str) -> str | None:
    """Return the name of the submission whose request lies there."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def comment(name: str, phase: str) -> str:
    """Return the comment by which a submission is found in Slurm again."""
    return f"slipway:{name}" + (f"/{COMPILE}" if phase == COMPILE else "")


def read_comment(text: str) -> tuple[str, str] | None:
    """Return the submission's name and the phase that a comment tells; None if the job is not ours."""
    found = _COMMENT.fullmatch(text)
    return (found[1], COMPILE if found[2] else RUN) if found else None


def encode(job: SlurmJob) -> str:
    return json.dumps({"schema": SCHEMA_VERSION, **asdict(job)}, sort_keys=True)


def decode(text: str, *, where: str) -> SlurmJob:
    """Decode a request; `where` names it in errors."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise _damaged(where, f"is not JSON ({error})") from None
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    refuse_newer(schema, SCHEMA_VERSION, where)
    if schema != SCHEMA_VERSION:
        raise _damaged(where, f"is not of schema {SCHEMA_VERSION}")
    wrong = [name for name, fits in _FITS.items() if not fits(record.get(name))]
    wrong += [name for name in record if name not in _FITS]
    if wrong:
        raise _damaged(where, f"has no {', '.join(wrong)} as this Slipway writes it")
    batches = tuple(SlurmBatch(**{**each, "options": tuple(each["options"])}) for each in record["batches"])
    texts = {name: tuple(record[name]) for name in ("arguments", "depends_on")}
    return SlurmJob(**{**record, **texts, "batches": batches})


def _is(pattern: str) -> Callable[[object], bool]:
    return lambda value: type(value) is str and re.fullmatch(pattern, value, re.ASCII) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is str for each in value)


def _is_batch(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"phase", "options", "script"}
        and value["phase"] in (COMPILE, RUN)
        and _are_texts(value["options"])
        and type(value["script"]) is str
    )


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "name": _is(NAME),
    "recipe": lambda value: type(value) is str,
    "code": _is("[0-9a-f]{64}"),  # it becomes the name of a folder
    **dict.fromkeys(("nodes", "attempts"), _is_count),
    "arguments": _are_texts,
    "depends_on": lambda value: _are_texts(value) and all(map(_is(JOB_ID), value)),
    "batches": lambda value: isinstance(value, list) and bool(value) and all(map(_is_batch, value)),
}


def _damaged(where: str, what: str) -> DamagedSlurmRequest:
    return DamagedSlurmRequest(
        f"{where} {what}",
        hint="submit the job again with the version of Slipway that the login node has",
    )
