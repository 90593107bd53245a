"""The jobs of a Slurm cluster as its login node tells them, read into one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.platforms.slurm.elements import elements_of, whole_jobs
from slipway.jobs.platforms.slurm.login_node import read_answer
from slipway.jobs.platforms.slurm.refusals import misses_nodes, refused_workers
from slipway.jobs.platforms.slurm.request import STATES
from slipway.jobs.words.cost import SECONDS_PER_HOUR, cost
from slipway.jobs.words.job_request import DamagedRequest, request_key
from slipway.jobs.words.records import NewerRecord
from slipway.jobs.words.run import Attempt, Found, Listed, Run, catalogued
from slipway.jobs.words.slurm import slurm_job
from slipway.jobs.words.slurm.slurm_answer import SlurmAnswer, SlurmAttempt, SlurmRecord
from slipway.jobs.words.slurm.slurm_job import COMPILE, RUN, SlurmJob, array_of
from slipway.jobs.words.states import JobState, translate
from slipway.jobs.words.targets import SlurmTarget

_DIGEST_SHOWN = 16
_SIGNAL_CODE = 128
_AWS_SAYS = "AWS says {}"


def list_jobs(target: SlurmTarget) -> list[Listed]:
    """List all jobs; of those with the same name, the first was kept."""
    seen: set[str] = set()
    listed = []
    for record in _runs(read_answer(target)):
        listed.append(Listed(id=record.id, name=record.name, is_twin=record.name in seen))
        seen.add(record.name)
    return listed


def list_runs(target: SlurmTarget) -> list[Run]:
    answer = read_answer(target)
    records = _runs(answer)
    refused = refused_workers([record.name for record in records], answer, target)
    return [_found(record, answer, target, refused).run for record in records]


def unfinished_runs(target: SlurmTarget) -> list[Run]:
    """Read the jobs that have not ended."""
    return [run for run in list_runs(target) if not run.state.is_final]


def refresh(job_id: str, target: SlurmTarget) -> Found[SlurmTarget] | None:
    answer = read_answer(target)
    record = next((each for each in _runs(answer) if each.id == job_id), None)
    return _found(record, answer, target, refused_workers([record.name], answer, target)) if record else None


def is_known(job_id: str, target: SlurmTarget) -> bool:
    return any(record.id == job_id for record in _runs(read_answer(target)))


def read_run(
    record: SlurmRecord,
    answer: SlurmAnswer,
    job: SlurmJob | None,
    target: SlurmTarget,
    now: datetime | None = None,
) -> Run:
    state = translate(STATES, record.state)
    began = [attempt for attempt in answer.attempts if array_of(attempt.job) == record.id]
    nodes, kind = job.nodes if job else record.nodes, catalogued(target)
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
        image=f"{target.machine_image}:{job.code[:_DIGEST_SHOWN]}" if job else None,
        image_digest=f"sha256:{job.code}" if job else None,
        hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 4),
        cost=cost(nodes, seconds, kind.price if kind else None),
        depends_on=tuple(dict.fromkeys([*awaited, *(job.depends_on if job else ())])),
    )


def _runs(answer: SlurmAnswer) -> list[SlurmRecord]:
    """Return the jobs themselves: one that only compiles stands behind the one that it is for."""
    return whole_jobs([record for record in answer.jobs if record.phase == RUN])


def _compile_of(record: SlurmRecord, answer: SlurmAnswer) -> SlurmRecord | None:
    return next((job for job in answer.jobs if (job.name, job.phase) == (record.name, COMPILE)), None)


def _found(
    record: SlurmRecord, answer: SlurmAnswer, target: SlurmTarget, refused: Sequence[str] = ()
) -> Found[SlurmTarget]:
    """Read a job; `refused` is what AWS says of the cluster's workers, and counts where it misses nodes."""
    job = _request(record.name, target)
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
    said = [run.reason, *map(_AWS_SAYS.format, own)]
    return Found(
        run=replace(run, reason="; ".join(each for each in said if each) or None),
        target=target,
        detail=detail,
    )


def _request(name: str, target: SlurmTarget) -> SlurmJob | None:
    """Read the request; None if it was deleted, or this Slipway cannot read it."""
    key = request_key(name)
    s3 = reader("s3", target.region)
    answer = ask(s3, "GetObject", Bucket=target.bucket, Key=key, ExpectedBucketOwner=target.account)
    if isinstance(answer, Unanswered):
        return None
    try:
        return slurm_job.decode(answer["Body"].read().decode(errors="replace"), where=key)
    except (DamagedRequest, NewerRecord):
        return None


def _seconds(record: SlurmRecord, began: Sequence[SlurmAttempt], now: datetime | None) -> float | None:
    """Return the time of all attempts in which nodes were paid for; the last may still go on."""
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
