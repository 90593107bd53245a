"""What a job writes of itself into its folder on shared files, so that no end of it is ever lost.

Slurm's controller forgets a job minutes after its end, and its accounts may be off or not answer. A file for
each attempt, written whole: begun when the batch script starts, and completed when it ends. Attempts are
counted by these: Slurm's own count of restarts grows with every launch that EC2 refuses, too.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from slipway.containers.runtime import disk
from slipway.jobs.platforms.whole_files import write_whole
from slipway.jobs.words.records import wrong_fields
from slipway.jobs.words.slurm.slurm_answer import SlurmAttempt, SlurmRecord
from slipway.jobs.words.slurm.slurm_job import COMPILE, RUN

_FOLDER = "attempts"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote:
    job: str
    phase: str
    number: int  # from 1
    restarts: int | None  # Slurm's count of them when this attempt began
    nodes: int
    hosts: str
    started: int
    ended: int | None
    exit_code: int | None
    resumes: bool  # the same job was given back to the queue


def begin_note(folder: Path, note: AttemptNote) -> AttemptNote:
    """Write that an attempt begins, and return its note with the number that it has.

    A start that wrote its note already keeps its number. No two get the same one: a node that Slurm has
    given up may still live, and write at the same time.
    """
    (folder / _FOLDER).mkdir(parents=True, exist_ok=True)
    begun = [each for each in read_notes(folder) if (each.phase, each.job) == (note.phase, note.job)]
    if again := next((each for each in begun if each.restarts == note.restarts), None):
        return replace(note, number=again.number)
    number = 1 + max((each.number for each in begun), default=0)
    while True:
        numbered = replace(note, number=number)
        try:
            disk.create_whole(_path(folder, numbered), _encode(numbered).encode(), token=secrets.token_hex(4))
        except FileExistsError:
            number += 1
        else:
            return numbered


def write_note(folder: Path, note: AttemptNote) -> None:
    """Write how an attempt ended over the note that it began with."""
    write_whole(_path(folder, note), _encode(note))


def read_notes(folder: Path) -> list[AttemptNote]:
    """Return the notes of a run, in order; a damaged one counts as none."""
    found = []
    for path in sorted((folder / _FOLDER).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(record, dict):
            continue
        record.setdefault("restarts", None)  # a Slipway before these were counted wrote none
        if not wrong_fields(AttemptNote, record):
            found.append(AttemptNote(**{name: record[name] for name in AttemptNote.__dataclass_fields__}))
    return sorted(found, key=lambda note: (note.started, note.number))


def _path(folder: Path, note: AttemptNote) -> Path:
    return folder / _FOLDER / f"{note.phase}-{note.job}-{note.number}.json"


def _encode(note: AttemptNote) -> str:
    return json.dumps(asdict(note), sort_keys=True)


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
        restarts=note.number - 1 if note.restarts is None else note.restarts,
        submitted=note.started,
        started=note.started,
        ended=note.ended,
        depends_on="",
    )
