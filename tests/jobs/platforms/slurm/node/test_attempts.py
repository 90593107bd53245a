"""The notes of attempts: a start has one number, whatever is written at the same time or was left before."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from slipway.jobs.platforms.slurm.node.attempts import (
    AttemptNote,
    begin_note,
    read_notes,
    remembered,
    write_note,
)
from slipway.jobs.words.slurm import RUN

NOTE = AttemptNote(
    job="7",
    phase=RUN,
    number=0,
    restarts=2,
    nodes=1,
    hosts="n1",
    started=100,
    ended=None,
    exit_code=None,
    resumes=False,
)


def test_attempts_are_counted_by_their_starts_and_not_by_what_slurm_requeued(tmp_path: Path) -> None:
    first = begin_note(tmp_path, NOTE)
    write_note(tmp_path, replace(first, ended=110, exit_code=85, resumes=True))
    assert begin_note(tmp_path, replace(NOTE, restarts=5, started=120)).number == 2
    assert [(note.number, note.restarts, note.exit_code) for note in read_notes(tmp_path)] == [
        (1, 2, 85),
        (2, 5, None),
    ]


def test_a_start_that_has_written_its_note_keeps_its_number(tmp_path: Path) -> None:
    assert [begin_note(tmp_path, NOTE).number for _ in range(2)] == [1, 1]
    assert len(read_notes(tmp_path)) == 1


def test_starts_at_the_same_time_have_numbers_of_their_own(tmp_path: Path) -> None:
    starts = [replace(NOTE, restarts=count) for count in range(8)]
    with ThreadPoolExecutor(8) as pool:
        numbers = [note.number for note in pool.map(lambda note: begin_note(tmp_path, note), starts)]
    assert sorted(numbers) == list(range(1, 9))


def test_jobs_phases_and_elements_of_arrays_count_their_own(tmp_path: Path) -> None:
    begin_note(tmp_path, NOTE)
    others = [replace(NOTE, job="7_0"), replace(NOTE, job="8"), replace(NOTE, phase="compile")]
    assert [begin_note(tmp_path, note).number for note in others] == [1, 1, 1]


def test_a_note_that_a_crash_damaged_keeps_its_number(tmp_path: Path) -> None:
    begin_note(tmp_path, NOTE)
    (damaged,) = (tmp_path / "attempts").iterdir()
    damaged.write_text("")
    assert begin_note(tmp_path, replace(NOTE, restarts=3)).number == 2


def test_notes_of_a_slipway_that_wrote_no_restarts_are_read(tmp_path: Path) -> None:
    begin_note(tmp_path, NOTE)
    (path,) = (tmp_path / "attempts").iterdir()
    record = json.loads(path.read_text())
    del record["restarts"]
    path.write_text(json.dumps(record))
    assert begin_note(tmp_path, NOTE).number == 2
    assert {job.id: job.restarts for job in remembered(tmp_path)} == {"7": 2}
