"""What the login node says of its jobs: written there from squeue, sacct and the jobs' folders, read here.

Systems Manager gives back the first 24,000 characters that a command prints, so a long answer is compressed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.records import wrong_fields

MOST_CHARACTERS = 24_000  # GetCommandInvocation (API reference), StandardOutputContent
_PLAIN_CHARACTERS = 8_000
_PACKED = "packed"
_MOST_BYTES = 16 << 20


class DamagedAnswer(SlipwayError):
    """The login node said something that this Slipway cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRecord:
    """Describes one job of Slurm. Times are Unix seconds."""

    id: str
    name: str  # of the submission
    phase: str
    state: str  # Slurm's own word
    reason: str  # why it waits or ended, in Slurm's words; empty where it says none
    nodes: int | None
    hosts: str
    exit_code: int | None
    exit_signal: int | None
    restarts: int
    submitted: int | None
    started: int | None
    ended: int | None
    depends_on: str  # ids between commas, as far as they have not ended


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAttempt:
    """Describes one attempt that ended, as the job itself wrote into its folder."""

    job: str  # its id
    number: int  # from 1
    started: int
    ended: int
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    name: str
    state: str
    reason: str  # why it takes no jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAnswer:
    jobs: tuple[SlurmRecord, ...] = ()
    attempts: tuple[SlurmAttempt, ...] = ()
    nodes: tuple[SlurmNode, ...] = ()
    left_out: int = 0  # jobs, the oldest, that found no place
    notes: tuple[str, ...] = ()  # what could not be asked, each in a sentence


def encode_answer(answer: SlurmAnswer) -> str:
    """Encode an answer within what Systems Manager gives back; the oldest jobs are left out."""
    jobs, left_out = list(answer.jobs), answer.left_out
    while True:
        text = json.dumps(
            {**asdict(answer), "jobs": [asdict(job) for job in jobs], "left_out": left_out}, sort_keys=True
        )
        if len(text) > _PLAIN_CHARACTERS:
            text = json.dumps({_PACKED: base64.b64encode(zlib.compress(text.encode(), 9)).decode()})
        if len(text) <= MOST_CHARACTERS:
            return text
        fewer = max(1, len(jobs) // 8)
        jobs, left_out = jobs[fewer:], left_out + fewer


def decode_answer(text: str) -> SlurmAnswer:
    """Decode the last line of what the login node printed: a shell's start-up files may print before it."""
    record = _object(text.strip().rpartition("\n")[2])
    if _PACKED in record:
        record = _object(_unpacked(str(record[_PACKED])))
    notes = record.get("notes", [])
    if not isinstance(notes, list):
        raise _damaged("has no notes")
    return SlurmAnswer(
        jobs=tuple(SlurmRecord(**each) for each in _records(SlurmRecord, record, "jobs")),
        attempts=tuple(SlurmAttempt(**each) for each in _records(SlurmAttempt, record, "attempts")),
        nodes=tuple(SlurmNode(**each) for each in _records(SlurmNode, record, "nodes")),
        left_out=int(record.get("left_out", 0)),
        notes=tuple(map(str, notes)),
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        raise _damaged(f"is not JSON but '{text[:80]}'") from None
    if not isinstance(record, dict):
        raise _damaged("is no object")
    return record


def _unpacked(text: str) -> str:
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except (ValueError, zlib.error) as error:
        raise _damaged(f"is not compressed as it says ({error})") from None
    return found.decode(errors="replace")


def _records(record_type: type[Any], record: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    found = record.get(name, [])
    if not isinstance(found, list):
        raise _damaged(f"has no {name}")
    known = record_type.__dataclass_fields__
    for each in found:
        if not isinstance(each, dict) or (wrong := wrong_fields(record_type, each)):
            said = ", ".join(wrong) if isinstance(each, dict) else "is no object"
            raise _damaged(f"has one of {name} that {said}")
    return [{field: each[field] for field in known} for each in found]


def _damaged(what: str) -> DamagedAnswer:
    return DamagedAnswer(
        f"what the login node said {what}",
        hint="its machine image may hold another version of Slipway: bake and deploy again",
    )
