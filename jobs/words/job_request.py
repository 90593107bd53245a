"""The request of a job in its cluster's bucket: submitting writes it as JSON, the machines there read it.

It lies at jobs/<name>/request.json, beside the code that it names by digest. What is in it, a platform says
with one check for each field (jobs/words/mpi, jobs/words/slurm).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.records import refuse_newer

NAME = "[A-Za-z0-9_-]{1,128}"  # of a job, where it becomes part of a command
CODE_PREFIX = "code/"
_KEY = re.compile(rf"jobs/({NAME})/request\.json", re.ASCII)

Check = Callable[[Any], bool]


class DamagedRequest(SlipwayError):
    """Slipway did not write this request, or something else changed it since."""


def request_key(name: str) -> str:
    return f"jobs/{name}/request.json"


def name_of(key: str) -> str | None:
    """Return the name of the job whose request lies there."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def code_key(digest: str) -> str:
    """Return where code lies; the digest is the plain archive's: releases of zlib compress otherwise."""
    return f"{CODE_PREFIX}{digest}.tar.gz"


def encode_request(schema: int, fields: Mapping[str, Any]) -> str:
    return json.dumps({"schema": schema, **fields}, sort_keys=True)


def decode_request(
    text: str, schema: int, checks: Mapping[str, Check], *, where: str, reader: str
) -> dict[str, Any]:
    """Decode exactly the fields that have a check; `where` and `reader` name the request and who reads it."""
    hint = f"submit the job again with the version of Slipway that the {reader}"
    try:
        record = json.loads(text)
    except ValueError as error:
        raise DamagedRequest(f"{where} is not JSON ({error})", hint=hint) from None
    found = record.pop("schema", None) if isinstance(record, dict) else None
    refuse_newer(found, schema, where)
    if found != schema:
        raise DamagedRequest(f"{where} is not of schema {schema}", hint=hint)
    wrong = [name for name, fits in checks.items() if not fits(record.get(name))]
    wrong += [name for name in record if name not in checks]
    if wrong:
        raise DamagedRequest(f"{where} has no {', '.join(wrong)} as this Slipway writes it", hint=hint)
    return dict(record)


def is_text(value: object) -> bool:
    return type(value) is str


def matches(pattern: str) -> Check:
    """Return the check for a text that is, as a whole, of this pattern."""
    return lambda value: type(value) is str and re.fullmatch(pattern, value, re.ASCII) is not None


is_digest = matches("[0-9a-f]{64}")  # it becomes the name of a folder


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_count(least: int) -> Check:
    return lambda value: type(value) is int and value >= least
