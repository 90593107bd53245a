"""Records each attempt of a job in the job's folder on shared files, so that its end is never lost.

Slurm's controller forgets a job minutes after its end, and its accounts may be off or down. Each attempt has
a file, written atomically: made when the batch script starts, completed when it ends. Attempts are counted by
these files, because Slurm's count of restarts grows with every launch that EC2 refuses.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from slipway.containers.runtime import disk
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.platforms.slurm.node import allocation, programs
from slipway.jobs.platforms.slurm.node.allocation import OddAnswer
from slipway.jobs.platforms.slurm.node.programs import NoSlurm, SlurmRefused
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.slurm import COMPILE, RUN, SlurmAnswer, SlurmAttempt, SlurmNode, SlurmRecord
from slipway.jobs.words.text import decode_json

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
    """Write that an attempt begins, and return its note with its number.

    A start that has written its note keeps its number. No two starts get the same one: a node that Slurm has
    given up may still run, and write at the same time.
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
    """Read the notes of a run, in order; skip a damaged one."""
    found = []
    for path in sorted((folder / _FOLDER).glob("*.json")):
        try:
            record = decode_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(record, dict):
            continue
        record.setdefault("restarts", None)  # older versions of Slipway wrote none
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
                name=folder.name,
                job=note.job,
                number=note.number,
                started=note.started,
                ended=note.ended,
                exit_code=note.exit_code,
            )


def remembered(folder: Path) -> list[SlurmRecord]:
    """Return the jobs of a run from their own notes, for when Slurm has forgotten them."""
    last = {(note.phase, note.job): note for note in read_notes(folder)}
    records = []
    for note in last.values():
        if note.ended is None:
            state = "UNKNOWN"  # it began, nobody saw it end, and Slurm no longer knows it
        elif note.resumes:
            state = "REQUEUED"
        else:
            state = "COMPLETED" if note.exit_code == 0 else "FAILED"
        records.append(
            SlurmRecord(
                id=note.job,
                name=folder.name,
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
        )
    return records


# All jobs of ours, from three sources: the controller, its accounts, the jobs' folders. The controller
# forgets a job minutes after its end; accounts may be off, late or down; and a job that never began has no
# note. So all three are asked, and a source that does not answer is named with the answer.
_ACCOUNTS_SINCE = "now-30days"
_MOST_FOLDERS = 500
_DISABLED = "accounting storage is disabled"

T = TypeVar("T")


class NoAccounts(SlurmRefused):
    """The cluster keeps no accounts of its jobs."""


def read_standing(folder: Path, name: str | None = None, slurm_version: str | None = None) -> SlurmAnswer:
    """Read one submission or all of them in the folder of runs; no failure here ends it."""
    notes: list[str] = []
    queued = _asked(lambda: read_queue(slurm_version), notes)
    accounted = _asked(lambda: read_accounts(slurm_version), notes)
    folders = _folders(folder, name)
    # Of jobs with one id, which are of several clusters that had these files, the newest wins.
    told = [record for each in reversed(folders) for record in remembered(each)]
    jobs = merge(told, accounted, queued)
    wanted = [job for job in jobs if name in (None, job.name)]
    return SlurmAnswer(
        jobs=tuple(sorted(wanted, key=lambda job: (job.submitted or 0, job.id))),
        attempts=tuple(attempt for folder in folders for attempt in ended_attempts(folder)),
        nodes=tuple(_asked(lambda: _nodes(slurm_version), notes)),
        notes=tuple(dict.fromkeys(notes)),
    )


def read_queue(slurm_version: str | None = None) -> list[SlurmRecord]:
    """Read the controller's jobs; it has to answer."""
    try:
        text = programs.ask(["squeue", "--json", "--states=all"], slurm_version=slurm_version)
        return allocation.read_queue(text)
    except programs.DeadController:
        programs.ask(["squeue", "--noheader"], slurm_version=slurm_version)  # only this prints why it fails
        raise


def read_accounts(slurm_version: str | None = None) -> list[SlurmRecord]:
    """Read the accounts; raise if sacct could not read them."""
    try:
        text = programs.ask(
            ["sacct", "--json", "--allusers", f"--starttime={_ACCOUNTS_SINCE}"], slurm_version=slurm_version
        )
    except SlurmRefused as refused:
        if _DISABLED in refused.message:
            raise NoAccounts(
                "this cluster keeps no accounts (sacct: accounting storage is disabled): a job that the "
                "controller has forgotten is told from its own folder",
            ) from None
        raise
    return allocation.read_accounts(text)


def merge(*sources: list[SlurmRecord]) -> list[SlurmRecord]:
    """Join what several sources say of the same jobs: a later source wins, unless its state is unknown."""
    found: dict[str, SlurmRecord] = {}
    for source in sources:
        for record in source:
            if record.state != "UNKNOWN" or record.id not in found:
                found[record.id] = record
    return list(found.values())


def _asked(ask: Callable[[], list[T]], notes: list[str]) -> list[T]:
    try:
        return ask()
    except (SlurmRefused, NoSlurm, OddAnswer) as error:
        notes.append(error.message)
        return []


def _nodes(slurm_version: str | None) -> list[SlurmNode]:
    try:
        text = programs.ask(["scontrol", "show", "nodes", "--json"], slurm_version=slurm_version)
    except programs.DeadController:
        raise
    except SlurmRefused:  # before release 23.02, when sinfo printed what scontrol prints now
        text = programs.ask(["sinfo", "--json"], slurm_version=slurm_version)
    return allocation.read_nodes(text)


def _folders(folder: Path, name: str | None) -> list[Path]:
    if name is not None:
        return [folder / name] if (folder / name).is_dir() else []
    try:
        found = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return [path for path in found if path.is_dir()][:_MOST_FOLDERS]
