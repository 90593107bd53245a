"""What a job on a cluster of MPI machines is: decided where it is submitted, read by the main node from S3.

`encode` writes jobs/<name>/request.json and `decode` reads it there. What only the nodes know (who they are,
how many cores each has) is not in it: jobs/platforms/mpi/node/run.py adds that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slipway.jobs.core.errors import SlipwayError
from slipway.jobs.core.records import refuse_newer

SCHEMA_VERSION = 2
# Of a job, where it becomes part of a command: infra/patterns/mpi/run_documents.py.
NAME = "[A-Za-z0-9_-]{1,128}"
# The digest of a code bundle is of the archive before it is compressed: releases of zlib differ in bytes.
CODE_PREFIX = "code/"
# In which the group of the nodes has started another machine for a lost one, and that has joined.
REPLACED_SECONDS = 900
LONGEST_SECONDS = 172_800  # that a command may run (Systems Manager user guide, executionTimeout)
# Of one attempt beyond the job's own time: hosts are checked, code is fetched, ranks save and end.
MARGIN_SECONDS = 300


class DamagedRequest(SlipwayError):
    """Slipway did not write this request, or something else changed it since."""


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
    mpi: str  # which one the nodes have to have: a key of MPIS in jobs/core/mpi/mpirun.py
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


def request_key(name: str) -> str:
    return f"jobs/{name}/request.json"


def code_key(digest: str) -> str:
    return f"{CODE_PREFIX}{digest}.tar.gz"


def encode(job: MpiJob) -> str:
    return json.dumps({"schema": SCHEMA_VERSION, **asdict(job)}, sort_keys=True)


def decode(text: str, *, where: str) -> MpiJob:
    """Decode a request; `where` names it in errors."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise _damaged(where, f"is not JSON ({error})") from None
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    refuse_newer(schema, SCHEMA_VERSION, where)
    if schema != SCHEMA_VERSION:
        raise _damaged(where, f"is not of schema {SCHEMA_VERSION}")
    wrong = [name for name, fits in _FITS.items() if not fits(record.get(name))]
    wrong += [name for name in record if name not in _FITS]
    if wrong:
        raise _damaged(where, f"has no {', '.join(wrong)} as this Slipway writes it")
    return MpiJob(**{**record, **{name: tuple(record[name]) for name in _LISTS}})


def _is_text(value: object) -> bool:
    return type(value) is str


def _is(pattern: str) -> Callable[[object], bool]:
    return lambda value: type(value) is str and re.fullmatch(pattern, value, re.ASCII) is not None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


_LISTS = ("arguments", "waits_for")
_FITS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("recipe", "module", "mpi"), _is_text),
    "name": _is(NAME),
    "code": _is("[0-9a-f]{64}"),  # it becomes the name of a folder
    **dict.fromkeys(("nodes", "efa_interfaces", "attempts", "timeout_seconds"), _is_count),
    **dict.fromkeys(_LISTS, _are_texts),
    "environment": lambda value: (
        isinstance(value, dict) and all(_is_text(each) for pair in value.items() for each in pair)
    ),
    "processes_per_node": lambda value: value is None or _is_count(value),
}


def _damaged(where: str, what: str) -> DamagedRequest:
    return DamagedRequest(
        f"{where} {what}",
        hint="submit the job again with the version of Slipway that the nodes have",
    )
