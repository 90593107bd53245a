"""What the login node does with jobs that run: it ends them, and shows the end of their logs."""

from __future__ import annotations

from pathlib import Path

from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.attempts import read_queue
from slipway.jobs.words.slurm import array_of

_OVER = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
_MOST_BYTES = 20_000  # Systems Manager gives back 24,000 characters


def cancel(runs: Path, name: str, slurm_version: str | None = None) -> str:
    """Cancel all jobs of a submission that have not ended, the last first: none starts when one is gone."""
    jobs = [job for job in read_queue(slurm_version) if job.name == name and job.state not in _OVER]
    last_first = sorted(jobs, key=lambda job: job.submitted or 0, reverse=True)
    ids = list(dict.fromkeys(array_of(job.id) for job in last_first))
    if ids:
        programs.ask(["scancel", *ids], slurm_version=slurm_version)
    return " ".join(ids)


def last_lines(folder: Path) -> str:
    """Return the end of what the jobs in a run's folder wrote, the newest last."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    texts = [_end(path, _MOST_BYTES // max(1, len(logs))) for path in logs]
    return "\n".join(texts)


def _end(path: Path, most: int) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read(most).decode(errors="replace").rstrip("\n")
