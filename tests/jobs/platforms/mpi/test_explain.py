"""Why a job of an MPI cluster failed, as its nodes said it: by ranks, by lost hosts, by attempts."""

from __future__ import annotations

import pytest

from slipway.jobs.platforms.platform import platform_of
from slipway.jobs.words.run import JobState
from slipway.jobs.words.targets import MpiTarget
from tests.jobs.platforms.mpi.test_platform import ended, submit, with_document
from tests.yard.machines.hosts.conftest import Site

BADLY = [
    "echo '[1] error: no such task' >&2",
    "echo '[run] error: glue ended with exit code 7' >&2",
    "exit 7",
]
GONE = "host ip-10-9-9-9 does not answer: timed out"


@with_document(BADLY)
def test_a_failed_job_is_explained_by_what_its_ranks_said(site: Site, target: MpiTarget) -> None:
    found = ended(site, target, submit(target).job_id)
    assert (found.run.state, found.run.exit_code, found.run.reason) == (JobState.FAILED, 7, "no such task")
    told = platform_of(target).explain(found)
    assert "exit code 7" in told.sentence
    assert any("no such task" in words for words in told.evidence)


def ends(code: int, *errors: str) -> list[str]:
    return [*(f"echo '[run] error: {error}' >&2" for error in errors), f"exit {code}"]


@pytest.mark.parametrize(
    ("target", "means", "reason"),
    [
        (ends(85, "x ended with exit code 85, host h was lost"), "host h was lost", "host h was lost"),
        (
            ends(85, f"{GONE}; it was not replaced", "x ended with exit code 85, attempt 1 of 3"),
            "host ip-10-9-9-9 was lost in attempt 1 of 3",
            f"{GONE}; it was not replaced",
        ),
        (ends(7, GONE, "x ended with exit code 7, attempt 2 of 2"), "with exit code 7", "attempt 2 of 2"),
    ],
    indirect=["target"],
    ids=["lost", "not replaced", "lost earlier"],
)
def test_a_lost_host_is_named_where_it_ended_the_job_and_attempts_are_counted_as_the_log_counts_them(
    site: Site, target: MpiTarget, means: str, reason: str
) -> None:
    found = ended(site, target, submit(target).job_id)
    assert platform_of(target).explain(found).sentence.endswith(f" {means}")
    assert str(found.run.reason).endswith(reason)
