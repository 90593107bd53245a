"""Reads the nodes that Slurm gave a job, in its batch script on the first of them; also Slurm's JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.jobs.platforms.slurm.node import programs
from slipway.jobs.platforms.slurm.node.programs import refusal
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.slurm import SlurmNode, SlurmRecord, read_comment
from slipway.jobs.words.text import decode_json

_FOREVER_MINUTES = 365 * 24 * 60


class NoAllocation(SlipwayError):
    """This process was not started by sbatch."""

    exit_code = 2


class UnevenArray(SlipwayError):
    """The numbers of an array are not evenly spaced, so work cannot be divided by them."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    job: str  # Slurm's id, of an element of an array 7_0
    nodes: int
    hosts: tuple[str, ...]  # this one first
    restarts: int  # how often it went back to the queue, also by launches that EC2 refused
    array_index: int | None  # from 0, whatever number the array begins with
    array_size: int | None
    seconds: int | None  # that are left; None: no limit, or unknown


def read_allocation(environment: Mapping[str, str]) -> Allocation:
    array, number = (environment.get(f"SLURM_ARRAY_{name}") for name in ("JOB_ID", "TASK_ID"))
    job = f"{array}_{number}" if array and number else environment.get("SLURM_JOB_ID")
    hosts = environment.get("SLURM_JOB_NODELIST")
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
    """Return the job's remaining time: later releases set a variable, older ones are asked."""
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
    if not all(re.fullmatch("[0-9]{1,9}", part) for part in (*parts, days or "0")):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    total += int(days or 0) * 24 * 3600
    return whole(total) if total < _FOREVER_MINUTES * 60 else None


# The JSON of squeue, sacct and sinfo, read into one form for all releases. Release 22.05 writes a state as a
# text and a number as such; since 23.02 a number is {"set", "infinite", "number"}, and since 23.11 a state is
# a list: the state itself, then flags such as COMPLETING.
_LARGEST = 1 << 63  # above any number that Slurm counts; NaN is not below it
_NEVER = 0  # Slurm's value of a time that has not come
_FOREVER = 0xFFFFFFFE  # Slurm's value of an unknown time
_IDS = re.compile(r"(?:after\w*:)?([0-9]+(?:_[0-9*]+)?)")
# Flags that are more exact than the state before them.
_TELLING = ("CONFIGURING", "POWER_UP_NODE", "COMPLETING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUED")
FINAL = (
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
)


class OddAnswer(SlipwayError):
    """Slurm printed something that is not its JSON."""


def read_queue(text: str) -> list[SlurmRecord]:
    """Read `squeue --json`: the jobs of ours that the controller still holds."""
    return [record for job in _items(text, "jobs", "squeue") if (record := _queued(job))]


def read_accounts(text: str) -> list[SlurmRecord]:
    """Read `sacct --json`: the jobs of ours in the accounting database."""
    return [record for job in _items(text, "jobs", "sacct") if (record := _accounted(job))]


def read_nodes(text: str) -> list[SlurmNode]:
    """Read `scontrol show nodes --json`, or sinfo's older form of it."""
    return [
        SlurmNode(
            name=str(node.get("name", "")),
            state="+".join(_words(node.get("state")) + _words(node.get("state_flags"))),
            reason=str(node.get("reason") or ""),
        )
        for node in _items(text, "nodes", "sinfo")
    ]


def whole(value: object) -> int | None:
    """Return a number as any release writes it; None if it is not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return int(value)


def _queued(job: Mapping[str, Any]) -> SlurmRecord | None:
    ours = read_comment(str(job.get("comment") or ""))
    if ours is None:
        return None
    state = _state(job.get("job_state"))
    code, number = _exit(job.get("exit_code"))
    started = _time(job.get("start_time"))
    is_over = state in FINAL
    has_begun = state not in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
    return SlurmRecord(
        id=_id(job),
        name=ours[0],
        phase=ours[1],
        state=state,
        reason=_reason(job.get("state_reason"), job.get("state_description")),
        nodes=whole(job.get("node_count")),
        hosts=str(job.get("nodes") or ""),
        exit_code=code if is_over else None,
        exit_signal=number if is_over else None,
        restarts=whole(job.get("restart_cnt")) or 0,
        submitted=_time(job.get("submit_time")),
        started=started if has_begun else None,
        ended=_time(job.get("end_time")) if is_over else None,
        depends_on=",".join(_IDS.findall(str(job.get("dependency") or ""))),
    )


def _accounted(job: Mapping[str, Any]) -> SlurmRecord | None:
    comment = job.get("comment")
    text = comment.get("job") if isinstance(comment, Mapping) else comment
    ours = read_comment(str(text or ""))
    if ours is None:
        return None
    times, told = _object(job.get("time")), _object(job.get("state"))
    state = _state(told.get("current"))
    code, number = _exit(job.get("exit_code"))
    is_over = state in FINAL
    return SlurmRecord(
        id=_id(job),
        name=ours[0],
        phase=ours[1],
        state=state,
        reason=_reason(told.get("reason"), None),
        nodes=whole(job.get("allocation_nodes")),
        hosts=str(job.get("nodes") or "").replace("None assigned", ""),
        exit_code=code if is_over else None,
        exit_signal=number if is_over else None,
        restarts=whole(job.get("restart_cnt")) or 0,
        submitted=_time(times.get("submission")),
        started=_time(times.get("start")),
        ended=_time(times.get("end")) if is_over else None,
        depends_on="",
    )


def _items(text: str, key: str, program: str) -> Iterator[Mapping[str, Any]]:
    try:
        found = decode_json(text)
    except ValueError:
        raise OddAnswer(f"{program} --json printed no JSON but '{' '.join(text.split())[:80]}'") from None
    if isinstance(found, dict) and (errors := found.get("errors")):
        # Refuse an empty answer: with --json the programs exit with 0 even if nobody answered them.
        first = errors[0] if isinstance(errors, list) else errors
        told = first if isinstance(first, dict) else {}
        said = ": ".join(str(told[name]) for name in ("description", "error") if told.get(name)) or str(first)
        raise refusal(program, said)
    items = found.get(key) if isinstance(found, dict) else None
    if not isinstance(items, list):
        raise OddAnswer(f"{program} --json printed no list of {key}")
    return (item for item in items if isinstance(item, dict))


def _id(job: Mapping[str, Any]) -> str:
    """Return the id: an element of an array is named after the array, as in squeue."""
    array = _object(job.get("array"))
    group = whole(job.get("array_job_id")) or whole(array.get("job_id"))
    task = whole(job.get("array_task_id"))
    task = whole(array.get("task_id")) if task is None else task
    return f"{group}_{task}" if group and task is not None else str(whole(job.get("job_id")))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return [value.upper()] if value else []
    return [str(each).upper() for each in value] if isinstance(value, Sequence) else []


def _state(value: object) -> str:
    """Return the state, or its flag, if that is more exact."""
    words = [word for word in _words(value) if word.strip()] or ["UNKNOWN"]
    if words[0] in FINAL:
        return words[0]
    return next((flag for flag in _TELLING if flag in words), words[0].split()[0])


def _exit(value: object) -> tuple[int | None, int | None]:
    """Return the exit code and the signal: 22.05 writes waitpid(2)'s status, later releases an object."""
    if not isinstance(value, Mapping):
        status = whole(value)
        return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F or None)
    signal = value.get("signal")
    number = whole(signal.get("id", signal.get("signal_id"))) if isinstance(signal, Mapping) else None
    return whole(value.get("return_code")), number or None


def _time(value: object) -> int | None:
    seconds = whole(value)
    return seconds if seconds and _NEVER < seconds < _FOREVER else None


def _reason(value: object, description: object) -> str:
    said = [str(each) for each in (value, description) if each and str(each) != "None"]
    return ": ".join(said)
