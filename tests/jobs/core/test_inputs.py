"""Where a job may read is said before it is paid for, and is what its role is given."""

from __future__ import annotations

import pytest

from slipway.jobs.core.inputs import JOB_PREFIXES, unreadable_inputs
from slipway.jobs.core.job import Job
from tests.jobs.core.test_targets import TARGET


def warned(value: str) -> list[str]:
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings={"input": value, "phase": "1"})
    return list(unreadable_inputs(job, TARGET))


@pytest.mark.parametrize("prefix", JOB_PREFIXES)
def test_what_the_role_may_read_needs_no_word(prefix: str) -> None:
    assert warned(f"s3://{TARGET.bucket}/{prefix}wiki") == []
    assert warned(f"s3://{TARGET.bucket}/{prefix.rstrip('/')}") == []
    assert warned("wikicorpus") == warned("https://example.com/wiki.txt") == []


@pytest.mark.parametrize("place", ["s3://elsewhere/datasets/wiki", f"s3://{TARGET.bucket}/wiki"])
def test_what_it_may_not_read_is_said_with_a_way_out(place: str) -> None:
    (line,) = warned(place)
    assert line.startswith(f"input is {place}, and the role of jobs on {TARGET.name} may read only ")
    assert f"aws s3 sync {place} s3://{TARGET.bucket}/datasets/input" in line
    assert "\n" not in line
