"""A trial's log becomes a profile: its seconds, or why it does not fit, and whether that is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.jobs.plan.tasks.on_clusters.searching_there import profile_from
from slipway.jobs.words.run import Cost, JobState, Run

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = '{"parameters": 5, "layers": 1, "widest": 2, "rows": 8, "batches": null, "device": "cpu"}'


def run(**facts: Any) -> Run:
    unsaid = dict.fromkeys(Run.__dataclass_fields__)
    cost = Cost(usd=None, node_hours=None, price=None)
    times = {"started_at": BEGAN, "stopped_at": BEGAN + timedelta(seconds=30)}
    return Run(**{**unsaid, "cost": cost, "attempts": (), "depends_on": (), **times, **facts})


def test_a_trial_that_went_well_tells_a_batch_and_what_its_start_took() -> None:
    lines = ["[0] step 4/4  loss 1.0", f'[0] trial: {{"facts": {FACTS}, "seconds": [9.0, 1.0, 2.0, 3.0]}}']
    found = profile_from(run(state=JobState.SUCCEEDED, status="SUCCEEDED"), lines)
    assert (found.seconds, found.error, found.startup) == (2.0, 0.5, 30 - 4 * 2.0)
    assert found.facts == {"parameters": 5, "layers": 1, "widest": 2, "rows": 8, "batches": None}
    assert found.is_kept


@pytest.mark.parametrize(
    ("status", "why", "lines", "reason", "is_kept"),
    [
        ("FAILED", "exit code 2", ["[1] error: no layers", f'trial: {{"facts": {FACTS}, "seconds": []}}'],
         "no layers", True),
        ("FAILED", "exit code 137", [], "exit code 137", False),
        ("FAILED", "Host EC2 (instance i-1) terminated.", ["[0] error: lost another rank: gloo"],
         "Host EC2 (instance i-1) terminated.", False),
        ("FAILED", "Host EC2 (instance i-1) terminated.", ["[0] error: no layers"], "no layers", False),
        ("CANCELLED", None, [], "its job ended as CANCELLED", False),
    ],
)  # fmt: skip
def test_a_trial_that_failed_says_why_and_only_what_would_happen_again_is_kept(
    status: str, why: str | None, lines: list[str], reason: str, is_kept: bool
) -> None:
    found = profile_from(run(state=JobState.FAILED, status=status, reason=why), lines)
    assert (found.seconds, found.reason, found.is_kept) == (None, reason, is_kept)
