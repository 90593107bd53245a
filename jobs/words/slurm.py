"""Paths on the nodes of a Slurm cluster, its jobs' requests, and the login node's answers; the yard uses it,
too.

Another installation of Slurm is one row of INSTALLATIONS; the first folder that has `sbatch` is used.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
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

SHARED = "/shared"  # the cluster's EFS: homes, and the files of jobs
JOBS = f"{SHARED}/jobs"  # one folder for each run: its batch script, its logs
SCRATCH = "/fsx"  # the cluster's FSx for Lustre, if it has one: datasets and compiled graphs

PYTHON = "/opt/slipway/venv/bin/python"
NODE_MODULE = "slipway.jobs.platforms.slurm.node.main"  # started by the run document on the login node
SCRIPTS = "/opt/slipway/slurm"  # of the machine image: compile.slurm, run.slurm and the models' scripts
PROLOG = f"{SCRIPTS}/prolog.sh"  # slurmd runs it as root, before and after each job
EPILOG = f"{SCRIPTS}/epilog.sh"
NODE_FACTS = "/etc/slipway/node.json"  # written by user data
UNFIT = "slipway: "  # begins the reason for which our prolog gives a node back

# PCS's tag of every instance of a compute node group.
GROUP_TAG = "aws:pcs:compute-node-group-id"
CLUSTER_TAG = "aws:pcs:cluster-id"

QUEUE = "train"  # PCS's queue, and Slurm's partition of the same name
ACTIONS = ("submit", "status", "cancel")  # actions of the run document on the login node

# AWS PCS user guide, "Software installers": the folder is Slurm's release without its last part. The other
# two are AWS ParallelCluster's and Debian's.
INSTALLATIONS = ("/opt/aws/pcs/scheduler/slurm-{release}/bin", "/opt/slurm/bin", "/usr/bin")


def program_folders(slurm_version: str) -> tuple[str, ...]:
    """Return the folders that may hold Slurm's programs, the likeliest first."""
    release = ".".join(slurm_version.split(".")[:2])
    return tuple(folder.format(release=release) for folder in INSTALLATIONS)


# A job on a Slurm cluster: its request is decided on submission, and read from S3 by the login node. The
# SHA-256 of its request is part of the command, so the login node submits these bytes or nothing.
SCHEMA_VERSION = 1
JOB_ID = "[0-9]{1,10}(_[0-9]{1,7})?"
COMPILE, RUN = "compile", "run"

_ARRAY = re.compile(r"--array=0-([0-9]+)", re.ASCII)
_COMMENT = re.compile(rf"slipway:({NAME})(/{COMPILE})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmBatch:
    """Holds one batch script, and its options of sbatch."""

    phase: str  # COMPILE or RUN
    options: tuple[str, ...]
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    name: str
    recipe: str
    nodes: int
    arguments: tuple[str, ...]  # the recipe's, for those who read the job's record
    code: str  # SHA-256 of the bundle that holds the recipe
    attempts: int
    batches: tuple[SlurmBatch, ...]  # each waits for the one before; the last is the job itself
    depends_on: tuple[str, ...]  # Slurm's ids of the jobs that must succeed first

    @property
    def elements(self) -> int:
        """Return how many jobs the last batch becomes; 1 if it is no array."""
        found = [_ARRAY.match(option) for option in self.batches[-1].options]
        return max((int(array[1]) + 1 for array in found if array), default=1)


def comment(name: str, phase: str) -> str:
    """Return the comment by which Slurm finds a submission again."""
    return f"slipway:{name}" + (f"/{COMPILE}" if phase == COMPILE else "")


def read_comment(text: str) -> tuple[str, str] | None:
    """Return the submission's name and phase in a comment; None if the job is not ours."""
    found = _COMMENT.fullmatch(text)
    return (found[1], COMPILE if found[2] else RUN) if found else None


def array_of(job_id: str) -> str:
    """Return the id of the array to which an element such as 7_0 belongs; for other jobs, their own id."""
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
# Systems Manager returns the first 24,000 characters that a command prints, so a long answer is compressed.
MOST_CHARACTERS = 24_000  # GetCommandInvocation (API reference), StandardOutputContent
_PLAIN_CHARACTERS = 8_000
_PACKED = "packed"
_MOST_BYTES = 16 << 20


class DamagedAnswer(SlipwayError):
    """The login node's answer cannot be read by this version of Slipway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRecord:
    """Describes one job of Slurm. Times are Unix seconds."""

    id: str
    name: str  # of the submission
    phase: str
    state: str  # Slurm's own word
    reason: str  # in Slurm's words: why it waits or ended; may be empty
    nodes: int | None
    hosts: str
    exit_code: int | None
    exit_signal: int | None
    restarts: int
    submitted: int | None
    started: int | None
    ended: int | None
    depends_on: str  # ids of unfinished jobs, comma-separated


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAttempt:
    """Describes one ended attempt, as the job itself wrote it into its folder."""

    job: str  # its id
    number: int  # from 1
    started: int
    ended: int
    exit_code: int
    name: str = ""  # of the job; "": an AMI of an older Slipway does not say it

    def is_of(self, record: SlurmRecord) -> bool:
        """Return True if the job is this one: kept files may hold jobs of an earlier cluster with its id."""
        return array_of(self.job) == array_of(record.id) and self.name in ("", record.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    name: str
    state: str
    reason: str  # why it accepts no jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmAnswer:
    jobs: tuple[SlurmRecord, ...] = ()
    attempts: tuple[SlurmAttempt, ...] = ()
    nodes: tuple[SlurmNode, ...] = ()
    left_out: int = 0  # number of the oldest jobs that did not fit
    notes: tuple[str, ...] = ()  # sentences on questions that had no answer


def encode_answer(answer: SlurmAnswer) -> str:
    """Encode an answer that fits Systems Manager's limit, without the oldest jobs if need be."""
    whole, jobs = asdict(replace(answer, jobs=())), [asdict(job) for job in answer.jobs]

    def encoded(fewer: int) -> str:
        gone = {job["id"] for job in jobs[:fewer]}
        attempts = [each for each in whole["attempts"] if each["job"] not in gone]
        left = {"jobs": jobs[fewer:], "attempts": attempts, "left_out": answer.left_out + fewer}
        text = json.dumps({**whole, **left}, sort_keys=True)
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
    """Decode the last line that the login node printed: a shell's start-up files may print before it."""
    record = _object(text.strip().rpartition("\n")[2])
    if _PACKED in record:
        try:
            packed = base64.b64decode(str(record[_PACKED]), validate=True)
            unpacked = zlib.decompressobj().decompress(packed, _MOST_BYTES)
        except (ValueError, zlib.error) as error:
            raise _damaged(f"is not compressed as it says ({error})") from None
        record = _object(unpacked.decode(errors="replace"))
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


def _records(record_type: type[Any], record: Mapping[str, Any], name: str) -> Sequence[dict[str, Any]]:
    found = record.get(name, [])
    if not isinstance(found, list):
        raise _damaged(f"has no {name}")
    known = fields(record_type)
    unsaid = {field.name: field.default for field in known if field.default is not MISSING}
    rows = [{**unsaid, **row} if isinstance(row, dict) else row for row in found]
    for row in rows:
        if not isinstance(row, dict) or (wrong := wrong_fields(record_type, row)):
            problem = ", ".join(wrong) if isinstance(row, dict) else "is no object"
            raise _damaged(f"has one of {name} that {problem}")
    return [{field.name: row[field.name] for field in known} for row in rows]


def _damaged(what: str) -> DamagedAnswer:
    return DamagedAnswer(
        f"what the login node said {what}",
        hint="its machine image may hold another version of Slipway: bake and deploy again",
    )


# How many nodes each size of AWS PCS's controller has room for, with the login node. A deployed one cannot
# change. API reference of AWS PCS, CreateCluster, `size`; UpdateCluster has none.
CONTROLLERS: Mapping[str, int] = {"small": 32, "medium": 512, "large": 2048}
LOGIN_NODES = 1


def smallest_controller(workers: int) -> str:
    """Return the smallest size with room for this many workers and the login node."""
    return next(size for size, nodes in CONTROLLERS.items() if workers + LOGIN_NODES <= nodes)


def most_workers(size: str) -> int:
    return CONTROLLERS[size] - LOGIN_NODES
