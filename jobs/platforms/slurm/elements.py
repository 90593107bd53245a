"""The jobs of an array as the one that was submitted: Slurm counts each of its elements as a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.words.slurm.slurm_answer import SlurmRecord
from slipway.jobs.words.slurm.slurm_job import array_of
from slipway.jobs.words.states import JobState, translate

# The whole is in the first of these that one of its elements is in.
_STATES = (
    JobState.RUNNING,
    JobState.STARTING,
    JobState.WAITING,
    JobState.UNKNOWN,
    JobState.FAILED,
    JobState.SUCCEEDED,
)


def whole_jobs(records: Sequence[SlurmRecord]) -> list[SlurmRecord]:
    """Return the jobs as they were submitted, each array as one."""
    arrays: dict[str, list[SlurmRecord]] = {}
    for record in records:
        arrays.setdefault(array_of(record.id), []).append(record)
    return [_whole(array, elements) for array, elements in arrays.items()]


def elements_of(job_id: str, records: Sequence[SlurmRecord]) -> list[SlurmRecord]:
    """Return the elements of an array; elements that wait are one record together. Or else the job itself."""
    return [record for record in records if array_of(record.id) == job_id]


def describe(elements: Sequence[SlurmRecord], count: int) -> Iterator[str]:
    """Yield how the elements of an array stand, and which failed; `count` is how many there are."""
    begun = [record for record in elements if "_" in record.id]
    counted = Counter(record.state for record in begun)
    waiting = max((record for record in elements if "_" not in record.id), key=_submitted, default=None)
    if waiting is not None and count > len(begun):
        counted[waiting.state] += count - len(begun)
    yield f"of {count} elements " + ", ".join(f"{many} {state}" for state, many in sorted(counted.items()))
    for record in begun:
        if translate(STATES, record.state) is JobState.FAILED:
            yield f"element {record.id.partition('_')[2]} is {record.state}, exit code {record.exit_code}"


def first_failed(elements: Sequence[SlurmRecord]) -> SlurmRecord | None:
    return next((each for each in elements if translate(STATES, each.state) is JobState.FAILED), None)


def _whole(array: str, elements: Sequence[SlurmRecord]) -> SlurmRecord:
    if len(elements) == 1 and elements[0].id == array:
        return elements[0]
    telling = min(elements, key=lambda record: _STATES.index(translate(STATES, record.state)))
    is_over = translate(STATES, telling.state).is_final
    return replace(
        telling,
        id=array,
        restarts=max(record.restarts for record in elements),
        submitted=min((record.submitted for record in elements if record.submitted), default=None),
        started=min((record.started for record in elements if record.started), default=None),
        ended=max((record.ended for record in elements if record.ended), default=None) if is_over else None,
    )


def _submitted(record: SlurmRecord) -> int:
    return record.submitted or 0
