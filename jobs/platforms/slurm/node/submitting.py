"""Turns a frozen request into jobs of Slurm, exactly once: a repeated request gets the ids of its jobs.

Also cancels jobs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipway.containers.runtime import disk
from slipway.jobs.platforms.on_nodes import PROGRAM, write_whole
from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.allocation import FINAL
from slipway.jobs.platforms.slurm.node.attempts import merge, read_accounts, read_queue, remembered
from slipway.jobs.platforms.slurm.node.programs import DeadController, SlurmRefused
from slipway.jobs.platforms.slurm.node.setting import PASSED_ON
from slipway.jobs.words import slurm
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.job import DamagedRequest
from slipway.jobs.words.slurm import SlurmBatch, SlurmJob, SlurmRecord, array_of

_LOST = ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")


class InVain(SlipwayError):
    """A job that this one waits for has failed, so it would wait forever."""


def read_request(s3: Any, bucket: str, key: str, digest: str) -> SlurmJob:
    """Read the request; refuse other bytes than the submitter froze."""
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    found = sha256(body).hexdigest()
    if found != digest:
        raise DamagedRequest(
            f"s3://{bucket}/{key} has the digest {found[:16]}…, and {digest[:16]}… was submitted",
            hint="somebody submitted another job of this name in the same instant: submit it again",
        )
    return slurm.decode(body.decode(errors="replace"), where=f"s3://{bucket}/{key}")


def submit_once(job: SlurmJob, folder: Path, slurm_version: str | None = None) -> str:
    """Submit each batch that Slurm does not have yet; return the id of the last, which is the job's."""
    folder.mkdir(parents=True, exist_ok=True)
    # A second login session could submit the same between our question and our sbatch.
    with disk.alone(folder / ".lock"):
        known = _known(folder, slurm_version)
        waits_for = [job_id for job_id in job.depends_on if _is_awaited(job_id, known)]
        last = ""
        for batch in job.batches:
            last = _find(known, job.name, batch.phase) or _send(folder, job, batch, waits_for, slurm_version)
            waits_for = [*waits_for, last] if _is_awaited(last, known) else waits_for
        return last


def _known(folder: Path, slurm_version: str | None) -> list[SlurmRecord]:
    """Return what is known of our jobs; the controller has to answer, or nothing is sent."""
    queued = read_queue(slurm_version)
    accounted: list[SlurmRecord] = []
    with suppress(SlurmRefused):  # without accounts, the folder tells what began
        accounted = read_accounts(slurm_version)
    return merge(remembered(folder), accounted, queued)


def _find(known: Sequence[SlurmRecord], name: str, phase: str) -> str | None:
    jobs = [job for job in known if (job.name, job.phase) == (name, phase)]
    found = sorted(jobs, key=lambda job: job.submitted or 0)
    return array_of(found[0].id) if found else None


def _is_awaited(job_id: str, known: Sequence[SlurmRecord]) -> bool:
    """Return True if a job still has to be waited for; Slurm may no longer know one that succeeded."""
    states = {job.state for job in known if job_id in (job.id, array_of(job.id))}
    if states & set(_LOST):
        raise InVain(
            f"job {job_id} has ended as {', '.join(states)}, and this job was to start after it succeeded",
            hint=f"slipway explain {job_id}; the same command with --again runs it once more",
        )
    return states != {"COMPLETED"}


def _send(
    folder: Path, job: SlurmJob, batch: SlurmBatch, waits_for: Sequence[str], slurm_version: str | None
) -> str:
    script = folder / f"{batch.phase}.sh"
    write_whole(script, batch.script, PROGRAM)
    after = [f"--dependency=afterok:{':'.join(waits_for)}", "--kill-on-invalid-dep=yes"] if waits_for else []
    # Variables that the job's script needs in a yard; on AWS none of them is set.
    names = [name for name in PASSED_ON if name in os.environ]
    passed_on = [f"--export={','.join(names)}"] if names else []
    words = ["sbatch", "--parsable", *batch.options, *passed_on, *after, str(script)]
    try:
        said = programs.ask(words, slurm_version=slurm_version)
    except DeadController:
        # It may have accepted the job before it stopped answering.
        if found := _find(_known(folder, slurm_version), job.name, batch.phase):
            return found
        raise
    job_id = said.strip().partition(";")[0]
    assert job_id.isdigit(), f"sbatch --parsable printed {said!r}"
    return job_id


def cancel(name: str, slurm_version: str | None = None) -> str:
    """Cancel a submission's unfinished jobs, the last first, so that none starts when another is gone."""
    jobs = [job for job in read_queue(slurm_version) if job.name == name and job.state not in FINAL]
    last_first = sorted(jobs, key=lambda job: job.submitted or 0, reverse=True)
    ids = list(dict.fromkeys(array_of(job.id) for job in last_first))
    if ids:
        programs.ask(["scancel", *ids], slurm_version=slurm_version)
    return " ".join(ids)
