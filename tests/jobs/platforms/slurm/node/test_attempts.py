"""Each start of a job has its own number in the notes of attempts; Slurm's output about jobs is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.slurm.node import training_job
from slipway.jobs.platforms.slurm.node.allocation import (
    OddAnswer,
    read_accounts,
    read_nodes,
    read_queue,
    whole,
)
from slipway.jobs.platforms.slurm.node.attempts import (
    AttemptNote,
    begin_note,
    read_notes,
    remembered,
    write_note,
)
from slipway.jobs.platforms.slurm.node.programs import DeadController, NoSlurm, find_program, refusal
from slipway.jobs.platforms.slurm.node.setting import ROOT_VARIABLE
from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.words.run import JobState, translate
from slipway.jobs.words.slurm import RUN
from tests.jobs.platforms.slurm.conftest import words

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


def test_an_end_that_cannot_be_recorded_is_said_and_the_job_goes_back_to_the_queue(tmp_path: Path) -> None:
    (tmp_path / "attempts").write_text("")  # no folder, as on a disk that has failed
    said: list[str] = []
    training_job._write(
        words("--folder", str(tmp_path)), replace(NOTE, ended=110, exit_code=85, resumes=True), said.append
    )
    assert len(said) == 1
    assert said[0].startswith("[run] warning: how this attempt ended is not recorded: ")


def test_starts_at_the_same_time_have_numbers_of_their_own(tmp_path: Path) -> None:
    starts = [replace(NOTE, restarts=count) for count in range(8)]
    with ThreadPoolExecutor(8) as pool:
        numbers = [note.number for note in pool.map(lambda note: begin_note(tmp_path, note), starts)]
    assert sorted(numbers) == list(range(1, 9))


def test_jobs_phases_and_elements_of_arrays_count_their_own_and_each_start_keeps_its_number(
    tmp_path: Path,
) -> None:
    assert [begin_note(tmp_path, NOTE).number for _ in range(2)] == [1, 1]
    (damaged,) = (tmp_path / "attempts").iterdir()
    others = [replace(NOTE, job="7_0"), replace(NOTE, job="8"), replace(NOTE, phase="compile")]
    assert [begin_note(tmp_path, note).number for note in others] == [1, 1, 1]
    damaged.write_text("")  # as by a crash
    assert begin_note(tmp_path, replace(NOTE, restarts=3)).number == 2


def test_notes_of_a_slipway_that_wrote_no_restarts_are_read(tmp_path: Path) -> None:
    begin_note(tmp_path, NOTE)
    (path,) = (tmp_path / "attempts").iterdir()
    record = json.loads(path.read_text())
    del record["restarts"]
    path.write_text(json.dumps(record))
    assert begin_note(tmp_path, NOTE).number == 2
    assert {job.id: job.restarts for job in remembered(tmp_path)} == {"7": 2}


# The JSON of several Slurm releases is read alike.
# A job as release 22.05 writes it, and the same one as 24.11 does.
OLD: Mapping[str, object] = {
    "job_id": 7,
    "array_job_id": 0,
    "array_task_id": None,
    "comment": "slipway:neox-0123456789ab",
    "job_state": "FAILED",
    "state_reason": "NonZeroExitCode",
    "state_description": "",
    "exit_code": 85 << 8,
    "node_count": 4,
    "nodes": "trn1-[1-4]",
    "restart_cnt": 2,
    "submit_time": 100,
    "start_time": 200,
    "end_time": 300,
    "dependency": "afterok:5(unfulfilled),afterok:6(unfulfilled)",
}


def set_(number: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": number}


NEW: Mapping[str, object] = {
    **OLD,
    "array_job_id": set_(0),
    "array_task_id": {"set": False, "infinite": False, "number": 0},
    "job_state": ["FAILED"],
    "exit_code": {
        "status": ["ERROR"],
        "return_code": set_(85),
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    },
    "node_count": set_(4),
    "submit_time": set_(100),
    "start_time": set_(200),
    "end_time": set_(300),
}


def queue(*jobs: Mapping[str, object]) -> str:
    return json.dumps({"jobs": jobs})


def test_every_release_tells_the_same_of_a_job() -> None:
    (old,), (new,) = read_queue(queue(OLD)), read_queue(queue(NEW))
    assert old == new
    assert (old.id, old.name, old.phase, old.exit_code) == ("7", "neox-0123456789ab", "run", 85)
    assert (old.submitted, old.started, old.ended, old.restarts) == (100, 200, 300, 2)
    assert old.depends_on == "5,6"
    killed = {"return_code": set_(0), "signal": {"id": set_(9), "name": "KILL"}}
    element = {"array_job_id": set_(5), "array_task_id": set_(0)}
    (old,) = read_queue(queue({**OLD, "array_job_id": 5, "array_task_id": 0, "exit_code": 9}))
    (new,) = read_queue(queue({**NEW, **element, "exit_code": killed}))
    assert (old.id, old.exit_signal) == (new.id, new.exit_signal) == ("5_0", 9)
    others = {**OLD, "comment": "mine"}, {**OLD, "comment": None}
    assert not read_queue(queue(*others)), "jobs of others are left out"
    text = json.dumps({"nodes": [{"name": "n1", "state": ["IDLE", "DRAIN"], "reason": "slipway: 15 of 16"}]})
    (node,) = read_nodes(text)
    assert (node.name, node.state, node.reason) == ("n1", "IDLE+DRAIN", "slipway: 15 of 16")


@pytest.mark.parametrize(
    ("state", "read", "means"),
    [
        ("PENDING", "PENDING", JobState.WAITING),
        (["PENDING", "REQUEUED"], "REQUEUED", JobState.WAITING),
        (["RUNNING", "CONFIGURING"], "CONFIGURING", JobState.STARTING),
        (["PENDING", "POWER_UP_NODE"], "POWER_UP_NODE", JobState.STARTING),
        (["COMPLETED", "COMPLETING"], "COMPLETED", JobState.SUCCEEDED),
        ("CANCELLED by 0", "CANCELLED", JobState.FAILED),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY", JobState.FAILED),
        (["HIBERNATING"], "HIBERNATING", JobState.UNKNOWN),
        (None, "UNKNOWN", JobState.UNKNOWN),
    ],
)
def test_a_state_is_read_whatever_its_flags_and_a_new_word_is_shown(
    state: object, read: str, means: JobState
) -> None:
    (job,) = read_queue(queue({**OLD, "job_state": state}))
    assert job.state == read
    assert translate(STATES, job.state) is means


def test_a_job_that_waits_has_not_started_though_slurm_foresees_when() -> None:
    (job,) = read_queue(queue({**OLD, "job_state": "PENDING", "end_time": 400, "state_reason": "Resources"}))
    assert (job.started, job.ended, job.exit_code, job.reason) == (None, None, None, "Resources")


def test_accounts_tell_the_same_of_a_job_as_the_queue() -> None:
    accounted = {
        "job_id": 7,
        "comment": {"administrator": "", "job": "slipway:neox-0123456789ab/compile", "system": ""},
        "state": {"current": ["TIMEOUT"], "reason": "None"},
        "exit_code": NEW["exit_code"],
        "allocation_nodes": 4,
        "nodes": "trn1-[1-4]",
        "time": {"submission": 100, "start": 200, "end": 300},
    }
    (job,) = read_accounts(queue(accounted))
    assert (job.id, job.phase, job.state, job.nodes, job.ended) == ("7", "compile", "TIMEOUT", 4, 300)


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error", "[]", '{"jobs": 3}'])
def test_what_is_no_answer_of_slurm_is_said_in_one_line(text: str) -> None:
    with pytest.raises(OddAnswer, match="squeue --json printed no"):
        read_queue(text)


def test_a_number_that_is_not_set_is_none() -> None:
    assert whole({"set": False, "infinite": False, "number": 3}) is None
    assert whole({"set": True, "infinite": True, "number": 0}) is None
    assert whole(True) is None


def test_an_answer_without_a_controller_is_not_an_empty_queue() -> None:
    silent = {
        "jobs": [],
        "errors": [{"description": "Failed while looking for jobs", "error": "Unspecified"}],
    }
    with pytest.raises(DeadController, match="controller does not answer"):
        read_queue(json.dumps(silent))


def test_a_node_in_its_first_minutes_says_so_and_when_to_ask_again() -> None:
    """The words are squeue's of release 22.05, on a login node whose sackd has not started."""
    said = (
        "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "squeue: error: fetch_config: DNS SRV lookup failed\n"
        "squeue: error: _establish_config_source: failed to fetch config\n"
        "squeue: fatal: Could not establish a configuration source"
    )
    told = refusal("squeue", said)
    assert isinstance(told, DeadController)
    assert "has no configuration of Slurm yet" in told.message
    assert "run the same command again in a minute" in str(told.hint)


def test_the_programs_are_of_the_clusters_release_though_the_machine_has_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller answers no newer commands; AWS's AMI has every release of Slurm."""
    facts = tmp_path / "etc/slipway/node.json"
    facts.parent.mkdir(parents=True)
    facts.write_text('{"slurm_version": "25.11"}', encoding="utf-8")
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    with pytest.raises(NoSlurm) as refused:
        find_program("no-program-of-this-name")
    assert "PATH and /opt/aws/pcs/scheduler/slurm-25.11/bin" in str(refused.value.hint)
