"""Jobs run on a real Slurm from request to end, with attempts and time limits, and nothing runs twice."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.slurm.node import attempts, submitting
from slipway.jobs.platforms.slurm.node.attempts import read_notes, read_standing
from slipway.jobs.platforms.slurm.node.programs import DeadController
from slipway.jobs.platforms.slurm.node.submitting import InVain, cancel, submit_once
from slipway.jobs.words.job import Job, request_key
from slipway.jobs.words.slurm import RUN, SlurmJob
from tests.jobs.platforms.slurm.conftest import Cluster
from tests.jobs.platforms.slurm.one_slurm import start_requeued

LONG = 30_000  # characters; srun carries a thousand at a time
HOSTILE = {
    "quotes": 'it\'s "here" `id` $(id) ${HOME} \\',
    "shell": "; rm -rf / # && || | > /dev/null < * ? [a-z] ! ~ %j %x",
    "spaces": "  two  spaces\u2003and an em space ",
    "words": "-- --module os =x= नमस्ते 🙂",
    "empty": "",
}


def told(cluster: Cluster, name: str) -> list[dict[str, object]]:
    """Return what each rank printed about itself."""
    lines = [line.partition("] ")[2] for line in cluster.log(name).splitlines() if line.startswith("[0] {")]
    return [json.loads(line) for line in lines]


def test_ranks_see_hostile_settings_and_places_as_they_were_written(cluster: Cluster) -> None:
    job = Job(name="echo", recipe="smoke", nodes=2, settings=HOSTILE, data="/d 'a' $(id)")
    job_id, request = cluster.submit(job)
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    (rank,) = told(cluster, request.name)
    assert rank["arguments"] == [
        word for name, value in sorted(HOSTILE.items()) for word in ("--set", f"{name}={value}")
    ]
    environment = rank["environment"]
    assert isinstance(environment, dict)
    assert environment["SLIPWAY_DATA"] == "/d 'a' $(id)"
    assert environment["SLIPWAY_NODES"] == "2"
    assert "SLIPWAY_LAUNCH_SECRET" not in environment


def test_long_lines_of_two_nodes_are_whole_in_the_log(cluster: Cluster) -> None:
    job_id, request = cluster.submit(
        Job(name="long", recipe="smoke", nodes=2, settings={"mode": "long_lines"})
    )
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    printed = [line for line in cluster.log(request.name).splitlines() if line.startswith(("[0] ", "[1] "))]
    assert sorted(printed) == sorted(
        f"[{rank}] {number} " + str(rank) * LONG for rank in range(2) for number in range(100)
    )


def test_the_same_request_is_one_job_however_often_it_is_sent_though_slurm_has_forgotten_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.root / "shared/checkpoints").mkdir(mode=0o755)
    before = cluster.slurm.count_jobs()
    request = cluster.request(Job(name="once", recipe="smoke", nodes=1, settings={"mode": "echo"}))
    with ThreadPoolExecutor(3) as pool:
        ids = set(pool.map(lambda _: submit_once(request, cluster.runs / request.name), range(3)))
    (job_id,) = ids
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    assert submit_once(request, cluster.runs / request.name) == job_id
    assert cluster.slurm.count_jobs() == before + 1
    for name in ("checkpoints", "logs", "data", "slipway/compiling"):  # jobs run as another user
        assert (cluster.root / "shared" / name).stat().st_mode & 0o7777 == 0o1777, name
    for module in (attempts, submitting):
        monkeypatch.setattr(module, "read_queue", lambda _: [])
    assert submit_once(request, cluster.runs / request.name) == job_id
    (record,) = read_standing(cluster.runs, request.name).jobs
    assert (record.id, record.state, record.exit_code, record.nodes) == (job_id, "COMPLETED", 0, 1)


def test_a_cluster_without_accounts_says_so_in_one_line(cluster: Cluster) -> None:
    (note,) = read_standing(cluster.runs).notes
    assert note.startswith("this cluster keeps no accounts (sacct: accounting storage is disabled)")
    assert "\n" not in note


@pytest.mark.slow  # its programs ask again for seconds
def test_without_a_controller_nothing_is_submitted_and_what_is_known_is_still_told(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, request = cluster.submit(Job(name="told", recipe="smoke", nodes=1))
    cluster.slurm.ended(job_id)
    cluster.slurm.end_controller()
    try:
        with monkeypatch.context() as patch:
            patch.setenv("SLURM_CONF", str(cluster.slurm.impatient()))
            with pytest.raises(DeadController, match="controller does not answer") as caught:
                cluster.submit(Job(name="later", recipe="smoke", nodes=1))
            assert "run the same command again" in caught.value.hint
            answer = read_standing(cluster.runs, request.name)
    finally:
        cluster.slurm.start_controller()
    assert [job.state for job in answer.jobs] == ["COMPLETED"]
    assert any("controller does not answer" in note for note in answer.notes)
    job_id, _ = cluster.submit(Job(name="later", recipe="smoke", nodes=1))
    assert cluster.slurm.ended(job_id) == "COMPLETED"


def test_without_accounts_jobs_are_submitted_and_told_from_their_own_folders(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "bin/sacct"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\necho 'slurm_persist_conn_open: Connection refused' >&2\nexit 1\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{silent.parent}{os.pathsep}{os.environ['PATH']}")
    job_id, request = cluster.submit(Job(name="unkept", recipe="smoke", nodes=1))
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    monkeypatch.setattr(attempts, "read_queue", lambda _: [])
    answer = read_standing(cluster.runs, request.name)
    assert [(job.state, job.exit_code) for job in answer.jobs] == [("COMPLETED", 0)]
    assert any("sacct" in note and "does not answer" in note for note in answer.notes)


LIMITED = Job(name="limit", recipe="smoke", nodes=1, settings={"mode": "resume"}, attempts=2)


def test_a_job_that_hears_its_time_is_nearly_over_saves_and_its_next_attempt_resumes(
    cluster: Cluster,
) -> None:
    """It hears what Slurm was told to send, in the way in which Slurm sends it."""
    job_id, request = cluster.submit(LIMITED)
    assert signals(request.batches[0].options) == ["USR1"]
    cluster.slurm.until(lambda: "[0] trains" in cluster.log(request.name), "training")
    cluster.slurm.ask("scancel", "--batch", "--signal=USR1", job_id)
    assert_saved_and_resumed(cluster, job_id, request)


@pytest.mark.long
@pytest.mark.slow  # Slurm looks at time limits only twice a minute
def test_at_the_end_of_its_time_a_job_saves_and_its_next_attempt_resumes(cluster: Cluster) -> None:
    request = cluster.request(replace(LIMITED, name="over"))  # else it is the job of the test before
    (batch,) = request.batches
    assert signals(batch.options) == ["USR1"]
    short = tuple(
        {"--time": "--time=1", "--signal": "--signal=B:USR1@58"}.get(option.partition("=")[0], option)
        for option in batch.options
    )
    request = replace(request, batches=(replace(batch, options=short),))
    job_id = submit_once(request, cluster.runs / request.name)
    assert_saved_and_resumed(cluster, job_id, request)


def signals(options: Sequence[str]) -> list[str]:
    """Return the signal that Slurm sends to a batch script before its time is up."""
    before = "--signal=B:"
    return [word.removeprefix(before).partition("@")[0] for word in options if word.startswith(before)]


def assert_saved_and_resumed(cluster: Cluster, job_id: str, request: SlurmJob) -> None:
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    log = cluster.log(request.name)
    assert "[run] the job's time is nearly over: its ranks save and end" in log
    assert "[0] resumes from attempt 1" in log
    notes = read_notes(cluster.runs / request.name)
    assert [(note.number, note.exit_code, note.resumes) for note in notes] == [(1, 85, True), (2, 0, False)]


def test_a_requeued_job_resumes_as_another_attempt(cluster: Cluster) -> None:
    job_id, request = cluster.submit(Job(name="again", recipe="smoke", nodes=2, settings={"mode": "resume"}))
    cluster.slurm.until(lambda: "[0] trains" in cluster.log(request.name), "training")
    cluster.slurm.ask("scontrol", "requeue", job_id)
    assert cluster.slurm.ended(job_id) == "COMPLETED", cluster.log(request.name)
    assert "[0] resumes from attempt 1" in cluster.log(request.name)
    (record,) = read_standing(cluster.runs, request.name).jobs
    assert record.restarts == 1


def test_a_job_that_its_machines_always_fail_ends_after_its_attempts(cluster: Cluster) -> None:
    job = Job(name="bad", recipe="smoke", nodes=1, settings={"mode": "resumable"}, attempts=2)
    job_id, request = cluster.submit(job)
    assert cluster.slurm.ended(job_id) == "FAILED"
    answer = read_standing(cluster.runs, request.name)
    assert [attempt.exit_code for attempt in answer.attempts] == [85, 85]
    assert [job.exit_code for job in answer.jobs] == [85]
    assert "error: bad" in cluster.log(request.name)


def test_launches_that_failed_before_a_job_began_leave_it_all_of_its_attempts(cluster: Cluster) -> None:
    slurm = cluster.slurm
    slurm.write_prolog(["exit 1"])  # as where EC2 gives no machine: its script does not run
    job = Job(name="refused", recipe="smoke", nodes=1, settings={"mode": "resumable"}, attempts=2)
    job_id, request = cluster.submit(job)
    for prolog in ("exit 1", "exit 0"):
        slurm.until(lambda: drained(cluster), "refusing a launch")
        slurm.ask("scontrol", "update", f"nodename={drained(cluster)}", "state=resume")
        slurm.write_prolog([prolog])
        start_requeued(slurm.ask, job_id)
    assert slurm.ended(job_id) == "FAILED"
    log = cluster.log(request.name)
    assert [line for line in log.splitlines() if "of attempt" in line] == [
        "[0] of attempt 1",
        "[0] of attempt 2",
    ], log
    assert "[run] attempt 1 of 2 ended: its machines failed it" in log
    assert "ended with exit code 85, attempt 2 of 2" in log
    assert "is one more than" not in log
    notes = read_notes(cluster.runs / request.name)
    assert [(note.number, note.restarts) for note in notes] == [(1, 2), (2, 3)]


def drained(cluster: Cluster) -> str:
    return cluster.slurm.ask("sinfo", "--noheader", "--states=drained", "--Node", "--format=%N")


def test_cancelling_ends_a_job_and_does_not_give_it_back_to_the_queue(cluster: Cluster) -> None:
    job_id, request = cluster.submit(Job(name="stop", recipe="smoke", nodes=2, settings={"mode": "resume"}))
    cluster.slurm.until(lambda: "[0] trains" in cluster.log(request.name), "training")
    assert cancel(request.name) == job_id
    assert cluster.slurm.ended(job_id) == "CANCELLED"
    assert cancel(request.name) == ""


def test_a_job_whose_program_fails_is_not_tried_again_and_one_that_waits_for_it_is_refused(
    cluster: Cluster,
) -> None:
    first = Job(name="first", recipe="smoke", nodes=2, settings={"mode": "fail"})
    job_id, request = cluster.submit(first)
    assert cluster.slurm.ended(job_id) == "FAILED"
    answer = read_standing(cluster.runs, request.name)
    assert [(job.exit_code, job.restarts) for job in answer.jobs] == [(3, 0)]
    second = cluster.request(Job(name="second", recipe="smoke", nodes=1), waits_for=(job_id,))
    with pytest.raises(InVain, match=f"job {job_id} has ended as FAILED"):
        submit_once(second, cluster.runs / second.name)


def test_a_job_that_waits_for_another_starts_after_it(cluster: Cluster, tmp_path: Path) -> None:
    first, _ = cluster.submit(Job(name="before", recipe="smoke", nodes=1))
    second = cluster.request(Job(name="after", recipe="smoke", nodes=1), waits_for=(first,))
    job_id = submit_once(second, cluster.runs / second.name)
    assert cluster.slurm.ended(job_id) == "COMPLETED"
    assert cluster.slurm.ended(first) == "COMPLETED"
    assert second.batches[-1].phase == RUN
    assert request_key(second.name).startswith("jobs/after-")
