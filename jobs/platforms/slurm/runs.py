"""Reads the jobs of a Slurm cluster into Runs, from its login node's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slipway.jobs.platforms.on_clusters import listed_once, read_request
from slipway.jobs.platforms.slurm.login_node import misses_nodes, read_answer, refused_workers
from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.words import slurm
from slipway.jobs.words.job import code_words
from slipway.jobs.words.run import (
    SECONDS_PER_HOUR,
    Attempt,
    Found,
    JobState,
    Listed,
    Run,
    cost,
    price_of,
    translate,
)
from slipway.jobs.words.slurm import COMPILE, RUN, SlurmAnswer, SlurmAttempt, SlurmJob, SlurmRecord, array_of
from slipway.jobs.words.targets import SlurmTarget

_SIGNAL_CODE = 128


def list_jobs(target: SlurmTarget) -> list[Listed]:
    """List all jobs; of jobs with the same name, the first was kept."""
    records = _runs(read_answer(target))
    return listed_once((record.id, record.name, _moment(record.submitted)) for record in records)


def list_runs(target: SlurmTarget) -> list[Run]:
    answer = read_answer(target)
    return _read(_runs(answer), answer, target)


def unfinished_runs(target: SlurmTarget) -> list[Run]:
    """Read the unfinished jobs."""
    answer = read_answer(target)
    unfinished = [each for each in _runs(answer) if not translate(STATES, each.state).is_final]
    return _read(unfinished, answer, target)


def _read(records: Sequence[SlurmRecord], answer: SlurmAnswer, target: SlurmTarget) -> list[Run]:
    refused = refused_workers([record.name for record in records], answer, target)
    return [_found(record, answer, target, refused).run for record in records]


def refresh(job_id: str, target: SlurmTarget) -> Found[SlurmTarget] | None:
    answer = read_answer(target)
    record = next((each for each in _runs(answer) if each.id == job_id), None)
    return _found(record, answer, target, refused_workers([record.name], answer, target)) if record else None


def is_known(job_id: str, target: SlurmTarget) -> bool:
    """Return False: Slurm lists each job that it has under its name.

    The id says nothing, since a cluster that is deployed again counts from 1.
    """
    return False


def read_run(
    record: SlurmRecord,
    answer: SlurmAnswer,
    job: SlurmJob | None,
    target: SlurmTarget,
    now: datetime | None = None,
) -> Run:
    state = translate(STATES, record.state)
    began = [attempt for attempt in answer.attempts if attempt.is_of(record)]
    nodes = job.nodes if job else record.nodes
    parts = elements_of(record.id, [each for each in answer.jobs if each.phase == RUN])
    times = [time for part in parts or [record] if (time := _seconds(part, began, now)) is not None]
    seconds = sum(times) if times else None
    compiled = _compile_of(record, answer)
    awaited = [compiled.id] if compiled else []
    return Run(
        id=record.id,
        name=record.name,
        target=target.name,
        region=target.region,
        state=state,
        status=record.state,
        reason=record.reason or None,
        recipe=job.recipe if job else None,
        nodes=nodes,
        instance_type=target.instance_type,
        created_at=_moment(record.submitted),
        started_at=_moment(min([attempt.started for attempt in began], default=record.started)),
        stopped_at=_moment(record.ended) if state.is_final else None,
        attempts=tuple(_attempts(began, record, state)),
        exit_code=_exit_code(record) if state.is_final else None,
        image=code_words(target.machine_image, job.code) if job else None,
        image_digest=f"sha256:{job.code}" if job else None,
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
        cost=cost(nodes, seconds, price_of(target)),
        depends_on=tuple(dict.fromkeys([*awaited, *(job.depends_on if job else ())])),
    )


def _runs(answer: SlurmAnswer) -> list[SlurmRecord]:
    """Return the jobs themselves, without those that only compile for another one."""
    return whole_jobs([record for record in answer.jobs if record.phase == RUN])


def _compile_of(record: SlurmRecord, answer: SlurmAnswer) -> SlurmRecord | None:
    return next((job for job in answer.jobs if (job.name, job.phase) == (record.name, COMPILE)), None)


def _found(
    record: SlurmRecord, answer: SlurmAnswer, target: SlurmTarget, refused: Sequence[str]
) -> Found[SlurmTarget]:
    """Read a job; `refused` is AWS's words on the cluster's workers, used only if the job lacks nodes."""
    job = read_request(record.name, target, slurm.decode)
    compiled = _compile_of(record, answer)
    own = refused if misses_nodes(record.name, answer) else ()
    detail = {
        "Job": record,
        "Compile": compiled,
        "Nodes": answer.nodes,
        "Notes": answer.notes,
        "Refused": own,
        "Elements": elements_of(record.id, answer.jobs) if job and job.elements > 1 else [],
        "Count": job.elements if job else 1,
        **({"RecipeArguments": list(job.arguments)} if job else {}),
    }
    run = read_run(record, answer, job, target)
    said = [run.reason, *map("AWS says {}".format, own)]
    return Found(
        run=replace(run, reason="; ".join(each for each in said if each) or None),
        target=target,
        detail=detail,
    )


def _seconds(record: SlurmRecord, began: Sequence[SlurmAttempt], now: datetime | None) -> float | None:
    """Return the time of all attempts in which nodes were paid for; the last may still be running."""
    state = translate(STATES, record.state)
    own = [attempt for attempt in began if attempt.job == record.id]
    over = sum(attempt.ended - attempt.started for attempt in own if attempt.ended <= (record.started or 0))
    if record.started is None:
        return float(over)
    until = record.ended if state.is_final else int((now or datetime.now(UTC)).timestamp())
    return None if until is None else float(over + max(0, until - record.started))


def _attempts(began: Sequence[SlurmAttempt], record: SlurmRecord, state: JobState) -> list[Attempt]:
    found = [
        Attempt(
            started_at=_moment(attempt.started),
            stopped_at=_moment(attempt.ended),
            exit_code=attempt.exit_code,
            reason=None,
        )
        for attempt in began
    ]
    if not found and state.is_final and record.started is not None:
        found.append(
            Attempt(
                started_at=_moment(record.started),
                stopped_at=_moment(record.ended),
                exit_code=_exit_code(record),
                reason=None,
            )
        )
    return found


def _exit_code(record: SlurmRecord) -> int | None:
    if record.exit_signal:
        return _SIGNAL_CODE + record.exit_signal
    return record.exit_code


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


# Joins the elements of an array, which Slurm counts as jobs, into the one job that was submitted. The whole
# is in the first of these states that one of its elements has.
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
    """Return the elements of an array, or the job itself; all waiting elements share one record."""
    return [record for record in records if array_of(record.id) == job_id]


def describe(elements: Sequence[SlurmRecord], count: int) -> Iterator[str]:
    """Yield the states of an array's elements, and which failed; `count` is the number of elements."""
    begun = [record for record in elements if "_" in record.id]
    counted = Counter(record.state for record in begun)
    shared = [record for record in elements if "_" not in record.id]
    waiting = max(shared, key=lambda record: record.submitted or 0, default=None)
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
