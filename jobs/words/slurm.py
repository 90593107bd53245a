"""Where Slurm, this project and a job's files lie on the nodes of a Slurm cluster; the yard asks, too.

Another installation of Slurm is one row of INSTALLATIONS; the first folder that holds `sbatch` is used.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.given import wrong_fields
from slipway.jobs.words.job import (
    NAME,
    Check,
    are_texts,
    decode_request,
    encode_request,
    is_count,
    is_digest,
    is_text,
    matches,
)
from slipway.jobs.words.text import decode_json

SHARED = "/shared"  # the cluster's EFS: homes, and what jobs leave
JOBS = f"{SHARED}/jobs"  # a folder a run: its batch script, its logs
SCRATCH = "/fsx"  # FSx for Lustre, where a cluster has it: datasets and compiled graphs

PYTHON = "/opt/slipway/venv/bin/python"
NODE_MODULE = "slipway.jobs.platforms.slurm.node.main"  # what the run document starts on the login node
SCRIPTS = "/opt/slipway/slurm"  # compile.slurm, run.slurm and the models' scripts, of the machine image
PROLOG = f"{SCRIPTS}/prolog.sh"  # slurmd runs them as root, before and after each job
EPILOG = f"{SCRIPTS}/epilog.sh"
NODE_FACTS = "/etc/slipway/node.json"  # what user data writes

# PCS puts it on every instance of a compute node group.
GROUP_TAG = "aws:pcs:compute-node-group-id"
CLUSTER_TAG = "aws:pcs:cluster-id"

QUEUE = "train"  # PCS's queue, and with its name Slurm's partition
ACTIONS = ("submit", "status", "cancel", "logs")  # what the run document does on the login node

# AWS PCS user guide, "Software installers": Slurm's release without its last part names the folder. The other
# two are AWS ParallelCluster's and Debian's.
INSTALLATIONS = ("/opt/aws/pcs/scheduler/slurm-{release}/bin", "/opt/slurm/bin", "/usr/bin")


def program_folders(slurm_version: str) -> tuple[str, ...]:
    """Return the folders that may hold sbatch and its kin, the likeliest first."""
    release = ".".join(slurm_version.split(".")[:2])
    return tuple(folder.format(release=release) for folder in INSTALLATIONS)


# What a job on a Slurm cluster is: decided where it is submitted, read by the login node from S3.
# The SHA-256 of its request travels with the command, so that the login node submits
# these bytes or nothing.
SCHEMA_VERSION = 1
JOB_ID = "[0-9]{1,10}(_[0-9]{1,7})?"
COMPILE, RUN = "compile", "run"

_ARRAY = re.compile(r"--array=0-([0-9]+)", re.ASCII)
_COMMENT = re.compile(rf"slipway:({NAME})(/{COMPILE})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmBatch:
    """Holds one batch script, and what sbatch is told beside it."""

    phase: str  # COMPILE or RUN
    options: tuple[str, ...]
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    name: str
    recipe: str
    nodes: int
    arguments: tuple[str, ...]  # of the recipe, for whoever reads what became of the job
    code: str  # SHA-256 of the bundle that holds the recipe
    attempts: int
    batches: tuple[SlurmBatch, ...]  # each waits for the one before; the last is the job
    depends_on: tuple[str, ...]  # Slurm's ids of the jobs that have to succeed first

    @property
    def elements(self) -> int:
        """Return how many jobs the last batch becomes; 1 where it is no array."""
        found = [_ARRAY.match(option) for option in self.batches[-1].options]
        return max((int(array[1]) + 1 for array in found if array), default=1)


def comment(name: str, phase: str) -> str:
    """Return the comment by which a submission is found in Slurm again."""
    return f"slipway:{name}" + (f"/{COMPILE}" if phase == COMPILE else "")


def read_comment(text: str) -> tuple[str, str] | None:
    """Return the submission's name and the phase that a comment tells; None if the job is not ours."""
    found = _COMMENT.fullmatch(text)
    return (found[1], COMPILE if found[2] else RUN) if found else None


def array_of(job_id: str) -> str:
    """Return the id of the array that an element such as 7_0 is of; any other job's own."""
    return job_id.partition("_")[0]


def encode(job: SlurmJob) -> str:
    return encode_request(SCHEMA_VERSION, asdict(job))


def decode(text: str, *, where: str) -> SlurmJob:
    """Decode a request; `where` names it in errors."""
    record = decode_request(text, SCHEMA_VERSION, _CHECKS, where=where, reader="login node has")
    batches = tuple(SlurmBatch(**{**each, "options": tuple(each["options"])}) for each in record["batches"])
    texts = {name: tuple(record[name]) for name in ("arguments", "depends_on")}
    return SlurmJob(**{**record, **texts, "batches": batches})


def _is_batch(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"phase", "options", "script"}
        and value["phase"] in (COMPILE, RUN)
        and are_texts(value["options"])
        and is_text(value["script"])
    )


_CHECKS: Mapping[str, Check] = {
    "name": matches(NAME),
    "recipe": is_text,
    "code": is_digest,
    **dict.fromkeys(("nodes", "attempts"), is_count(1)),
    "arguments": are_texts,
    "depends_on": lambda value: are_texts(value) and all(map(matches(JOB_ID), value)),
    "batches": lambda value: isinstance(value, list) and bool(value) and all(map(_is_batch, value)),
}


# What the login node says of its jobs: written there from squeue, sacct and the jobs' folders, read here.
# Systems Manager gives back the first 24,000 characters that a command prints, so a long answer is
# compressed.
MOST_CHARACTERS = 24_000  # GetCommandInvocation (API reference), StandardOutputContent
_PLAIN_CHARACTERS = 8_000
_PACKED = "packed"
_MOST_BYTES = 16 << 20


class DamagedAnswer(SlipwayError):
    """The login node said something that this Slipway cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRecord:
    """Describes one job of Slurm. Times are Unix seconds."""

    id: str
    name: str  # of the submission
    phase: str
    state: str  # Slurm's own word
    reason: str  # why it waits or ended, in Slurm's words; empty where it says none
    nodes: int | None
    hosts: str
    exit_code: int | None
    exit_signal: int | None
    restarts: int
    submitted: int | None
    started: int | None
    ended: int | None
    depends_on: str  # ids between commas, as far as they have not ended


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAttempt:
    """Describes one attempt that ended, as the job itself wrote into its folder."""

    job: str  # its id
    number: int  # from 1
    started: int
    ended: int
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    name: str
    state: str
    reason: str  # why it takes no jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAnswer:
    jobs: tuple[SlurmRecord, ...] = ()
    attempts: tuple[SlurmAttempt, ...] = ()
    nodes: tuple[SlurmNode, ...] = ()
    left_out: int = 0  # jobs, the oldest, that found no place
    notes: tuple[str, ...] = ()  # what could not be asked, each in a sentence


def encode_answer(answer: SlurmAnswer) -> str:
    """Encode an answer within what Systems Manager gives back; the oldest jobs are left out."""
    whole, jobs = asdict(replace(answer, jobs=())), [asdict(job) for job in answer.jobs]

    def encoded(fewer: int) -> str:
        text = json.dumps(
            {**whole, "jobs": jobs[fewer:], "left_out": answer.left_out + fewer}, sort_keys=True
        )
        if len(text) > _PLAIN_CHARACTERS:
            text = json.dumps({_PACKED: base64.b64encode(zlib.compress(text.encode(), 9)).decode()})
        return text

    every = encoded(0)
    if len(every) <= MOST_CHARACTERS:
        return every
    return encoded(
        bisect_left(range(len(jobs)), True, key=lambda fewer: len(encoded(fewer)) <= MOST_CHARACTERS)
    )


def decode_answer(text: str) -> SlurmAnswer:
    """Decode the last line of what the login node printed: a shell's start-up files may print before it."""
    record = _object(text.strip().rpartition("\n")[2])
    if _PACKED in record:
        record = _object(_unpacked(str(record[_PACKED])))
    notes, left_out = record.get("notes", []), record.get("left_out", 0)
    if not isinstance(notes, list):
        raise _damaged("has no notes")
    if type(left_out) is not int:
        raise _damaged("has no left_out")
    return SlurmAnswer(
        jobs=tuple(SlurmRecord(**each) for each in _records(SlurmRecord, record, "jobs")),
        attempts=tuple(SlurmAttempt(**each) for each in _records(SlurmAttempt, record, "attempts")),
        nodes=tuple(SlurmNode(**each) for each in _records(SlurmNode, record, "nodes")),
        left_out=left_out,
        notes=tuple(map(str, notes)),
    )


def _object(text: str) -> Mapping[str, Any]:
    try:
        record = decode_json(text)
    except ValueError:
        raise _damaged(f"is not JSON but '{text[:80]}'") from None
    if not isinstance(record, dict):
        raise _damaged("is no object")
    return record


def _unpacked(text: str) -> str:
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except (ValueError, zlib.error) as error:
        raise _damaged(f"is not compressed as it says ({error})") from None
    return found.decode(errors="replace")


def _records(record_type: type[Any], record: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    found = record.get(name, [])
    if not isinstance(found, list):
        raise _damaged(f"has no {name}")
    known = record_type.__dataclass_fields__
    for each in found:
        if not isinstance(each, dict) or (wrong := wrong_fields(record_type, each)):
            said = ", ".join(wrong) if isinstance(each, dict) else "is no object"
            raise _damaged(f"has one of {name} that {said}")
    return [{field: each[field] for field in known} for each in found]


def _damaged(what: str) -> DamagedAnswer:
    return DamagedAnswer(
        f"what the login node said {what}",
        hint="its machine image may hold another version of Slipway: bake and deploy again",
    )


# Sizes of AWS PCS's controller: how many nodes each has room for. None can change once it is deployed.
# API reference of AWS PCS, CreateCluster, `size`; UpdateCluster takes none. The login node counts.
CONTROLLERS: Mapping[str, int] = {"small": 32, "medium": 512, "large": 2048}
LOGIN_NODES = 1


def smallest_controller(workers: int) -> str:
    """Return the smallest size with room for so many workers and the login node."""
    return next(size for size, nodes in CONTROLLERS.items() if workers + LOGIN_NODES <= nodes)


def most_workers(size: str) -> int:
    return CONTROLLERS[size] - LOGIN_NODES
