"""Where a job may read is said before it is paid for, and is what its role is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.words.job import JOB_PREFIXES, DoesNotFit, Job, refuse_unreachable_inputs, unreadable_inputs
from tests.jobs.words.test_targets import TARGET


def warned(value: str) -> list[str]:
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings={"input": value, "phase": "1"})
    return list(unreadable_inputs(job, TARGET))


@pytest.mark.parametrize("prefix", JOB_PREFIXES)
def test_what_the_role_may_read_needs_no_word(prefix: str) -> None:
    assert warned(f"s3://{TARGET.bucket}/{prefix}wiki") == []
    assert warned(f"s3://{TARGET.bucket}/{prefix.rstrip('/')}") == []
    assert warned("wikicorpus") == []


@pytest.mark.parametrize("place", ["s3://elsewhere/datasets/wiki", f"s3://{TARGET.bucket}/wiki"])
def test_what_it_may_not_read_is_said_with_a_way_out(place: str) -> None:
    (line,) = warned(place)
    assert line.startswith(f"input is {place}, and the role of jobs on {TARGET.name} may read only ")
    assert f"aws s3 sync {place} s3://{TARGET.bucket}/datasets/input" in line
    assert "\n" not in line


@pytest.mark.parametrize("place", ["https://example.com/wiki.txt", "HTTP://example.com/wiki.txt"])
def test_a_url_is_refused_where_the_nodes_reach_no_internet(place: str) -> None:
    job = Job(name="p", recipe="prepare_bert", nodes=1, settings={"input": place})
    with pytest.raises(DoesNotFit, match="reach no internet") as refused:
        refuse_unreachable_inputs(job, TARGET)
    assert f"slipway cluster upload FILE --on {TARGET.name}" in refused.value.hint
    assert f"-c {TARGET.name}.egress=nat" in refused.value.hint
    refuse_unreachable_inputs(job, replace(TARGET, has_internet=True))


def test_data_that_the_role_of_jobs_cannot_read_is_warned_of_as_a_setting_is() -> None:
    job = Job(name="bert", recipe="bert_pretrain", nodes=1, data="s3://elsewhere/wiki")
    (warning,) = unreadable_inputs(job, TARGET)
    assert warning.startswith("--data is s3://elsewhere/wiki, and the role of jobs on dl1 may read only")
    assert warning.count("datasets/data") == 1
