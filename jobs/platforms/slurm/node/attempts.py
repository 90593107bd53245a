"""What a job writes of itself into its folder on shared files, so that no end of it is ever lost.

Slurm's controller forgets a job minutes after its end, and its accounts may be off or not answer. A file for
each attempt, written whole: begun when the batch script starts, and completed when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.jobs.core.records import wrong_fields
from slipway.jobs.core.slurm.slurm_answer import SlurmAttempt, SlurmRecord
from slipway.jobs.core.slurm.slurm_job import COMPILE, RUN
from slipway.jobs.platforms.whole_files import write_whole

_FOLDER = "attempts"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote:
    job: str
    phase: str
    number: int  # from 1
    nodes: int
    hosts: str
    started: int
    ended: int | None
    exit_code: int | None
    resumes: bool  # the same job was given back to the queue


def write_note(folder: Path, note: AttemptNote) -> None:
    path = folder / _FOLDER / f"{note.phase}-{note.job}-{note.number}.json"
    write_whole(path, json.dumps(asdict(note), sort_keys=True))


def read_notes(folder: Path) -> list[AttemptNote]:
    """Return the notes of a run, in order; a damaged one counts as none."""
    found = []
    for path in sorted((folder / _FOLDER).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and not wrong_fields(AttemptNote, record):
            found.append(AttemptNote(**{name: record[name] for name in AttemptNote.__dataclass_fields__}))
    return sorted(found, key=lambda note: (note.started, note.number))


def ended_attempts(folder: Path) -> Iterator[SlurmAttempt]:
    for note in read_notes(folder):
        if note.ended is not None and note.exit_code is not None:
            yield SlurmAttempt(
                job=note.job,
                number=note.number,
                started=note.started,
                ended=note.ended,
                exit_code=note.exit_code,
            )


def remembered(folder: Path) -> list[SlurmRecord]:
    """Return the jobs of a run as their own notes tell them, for when Slurm has forgotten them."""
    last = {(note.phase, note.job): note for note in read_notes(folder)}
    return [_record(folder.name, note) for note in last.values()]


def _record(name: str, note: AttemptNote) -> SlurmRecord:
    if note.ended is None:
        state = "UNKNOWN"  # it began, nobody saw it end, and Slurm no longer knows it
    elif note.resumes:
        state = "REQUEUED"
    else:
        state = "COMPLETED" if note.exit_code == 0 else "FAILED"
    return SlurmRecord(
        id=note.job,
        name=name,
        phase=COMPILE if note.phase == COMPILE else RUN,
        state=state,
        reason="",
        nodes=note.nodes,
        hosts=note.hosts,
        exit_code=note.exit_code,
        exit_signal=None,
        restarts=note.number - 1,
        submitted=note.started,
        started=note.started,
        ended=note.ended,
        depends_on="",
    )
