"""What a job on a cluster of MPI machines is: decided where it is submitted, read by the main node from S3.

What only the nodes know (who they are,
how many cores each has) is not in it: jobs/platforms/mpi/node/run.py adds that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from slipway.jobs.words.job_request import (
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

SCHEMA_VERSION = 2
# In which the group of the nodes has started another machine for a lost one, and that has joined.
REPLACED_SECONDS = 900
LONGEST_SECONDS = 172_800  # that a command may run (Systems Manager user guide, executionTimeout)
# Of one attempt beyond the job's own time: hosts are checked, code is fetched, ranks save and end.
MARGIN_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiJob:
    name: str
    recipe: str
    nodes: int
    module: str  # what every rank runs
    arguments: tuple[str, ...]
    environment: Mapping[str, str]  # the static half of the launch contract
    processes_per_node: int | None  # None: one a NUMA domain, which the nodes count themselves
    code: str  # SHA-256 of the bundle that holds the module
    mpi: str  # which one the nodes have to have: a key of MPIS in jobs/words/mpi/mpirun.py
    efa_interfaces: int  # of a node
    attempts: int
    timeout_seconds: int  # of one attempt
    waits_for: tuple[str, ...]  # ids of jobs on this cluster that have to succeed first


def command_seconds(timeout_seconds: int, attempts: int) -> int:
    """Return the time that a job's command needs in all."""
    return attempts * (timeout_seconds + MARGIN_SECONDS) + (attempts - 1) * REPLACED_SECONDS


def longest_timeout(seconds: int, attempts: int) -> int:
    """Return the longest timeout of an attempt with which the command takes no more than this."""
    return (seconds - (attempts - 1) * REPLACED_SECONDS) // attempts - MARGIN_SECONDS


def encode(job: MpiJob) -> str:
    return encode_request(SCHEMA_VERSION, asdict(job))


def decode(text: str, *, where: str) -> MpiJob:
    """Decode a request; `where` names it in errors."""
    record = decode_request(text, SCHEMA_VERSION, _CHECKS, where=where, reader="nodes have")
    return MpiJob(**{**record, **{name: tuple(record[name]) for name in _LISTS}})


_LISTS = ("arguments", "waits_for")
_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("recipe", "module", "mpi"), is_text),
    "name": matches(NAME),
    "code": is_digest,
    **dict.fromkeys(("nodes", "efa_interfaces", "attempts", "timeout_seconds"), is_count(0)),
    **dict.fromkeys(_LISTS, are_texts),
    "environment": lambda value: (
        isinstance(value, dict) and all(is_text(each) for pair in value.items() for each in pair)
    ),
    "processes_per_node": lambda value: value is None or is_count(0)(value),
}
