"""The nodes that Slurm gave a job, as its batch script finds them on the first of these."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.slurm_json import whole
from slipway.jobs.words.errors import SlipwayError

_FOREVER_MINUTES = 365 * 24 * 60


class NoAllocation(SlipwayError):
    """This process was not started by sbatch."""

    exit_code = 2


class UnevenArray(SlipwayError):
    """The numbers of an array are none that work can be divided by."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    job: str  # Slurm's id, of an element of an array 7_0
    nodes: int
    hosts: tuple[str, ...]  # this one first
    restarts: int  # how often Slurm gave it back to the queue: for each launch that EC2 refused, too
    array_index: int | None  # from 0, whatever number the array begins with
    array_size: int | None
    seconds: int | None  # that are left; None: without a limit, or nobody says


def read_allocation(environment: Mapping[str, str]) -> Allocation:
    job, hosts = _job(environment), environment.get("SLURM_JOB_NODELIST")
    if not job or not hosts:
        raise NoAllocation(
            "SLURM_JOB_ID is not set, so this is no job of Slurm",
            hint="submit it: sbatch --nodes 4 run.slurm ./neox_tiny.sh",
        )
    named = tuple(programs.ask(["scontrol", "show", "hostnames", hosts]).split())
    array_index, array_size = _array(environment)
    return Allocation(
        job=job,
        nodes=len(named),
        hosts=named,
        restarts=int(environment.get("SLURM_RESTART_COUNT") or 0),
        array_index=array_index,
        array_size=array_size,
        seconds=_seconds_left(job, environment),
    )


def _job(environment: Mapping[str, str]) -> str | None:
    array, number = (environment.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    return f"{array}_{number}" if array and number else environment.get("SLURM_JOB_ID")


def _array(environment: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return which element of how many this job is: --array=1-16 and --array=0-30:2 have 16 as well."""
    names = ("ID", "COUNT", "MIN", "MAX", "STEP")
    number, count, least, most, step = (_number(environment, f"SLURM_ARRAY_TASK_{name}") for name in names)
    if number is None or count is None or least is None:
        return None, None
    step = step or 1
    if most is not None and most - least != (count - 1) * step:
        raise UnevenArray(
            f"the {count} numbers of this array from {least} to {most} are not evenly spaced, so that no "
            "element knows its share of the work",
            hint=f"submit it with --array=0-{count - 1}",
        )
    return (number - least) // step, count


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment.get(name, "")
    return int(value) if value.isdigit() else None


def _seconds_left(job: str, environment: Mapping[str, str]) -> int | None:
    """Return what is left of the job's time: later releases say it in a variable, others when asked."""
    ends = _number(environment, "SLURM_JOB_END_TIME")
    if ends is not None:
        return max(0, ends - int(time.time()))
    try:
        said = programs.ask(["squeue", "--noheader", "--format=%L", f"--jobs={job}"]).strip()
    except programs.SlurmRefused:
        return None
    return _seconds(said)


def _seconds(text: str) -> int | None:
    """Read days-hours:minutes:seconds, of which the first parts may be missing."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or not (days or "0").isdigit():
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    total += int(days or 0) * 24 * 3600
    return whole(total) if total < _FOREVER_MINUTES * 60 else None
