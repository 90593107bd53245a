"""A record of a newer Slipway is never called damaged, and no message says to overwrite it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slipway.jobs.words import mpi
from slipway.jobs.words.images.amis import decode_bakery, encode_bakery
from slipway.jobs.words.mpi import READY_KEY, decode_readiness, encode_readiness
from slipway.jobs.words.targets import decode_target, encode_target
from slipway.jobs.words.text import NewerRecord
from tests.jobs.words.images.test_amis import BAKERY
from tests.jobs.words.test_mpi import JOB, READINESS
from tests.jobs.words.test_targets import TARGET

WHERE = "/slipway/here"
READERS: dict[str, tuple[str, Callable[[str], object], str]] = {
    "target": (encode_target(TARGET), lambda text: decode_target(text, parameter=WHERE), WHERE),
    "bakery": (encode_bakery(BAKERY), lambda text: decode_bakery(text, parameter=WHERE), WHERE),
    "request": (mpi.encode(JOB), lambda text: mpi.decode(text, where=WHERE), WHERE),
    "readiness": (encode_readiness(READINESS), decode_readiness, READY_KEY),
}


@pytest.mark.parametrize("record", READERS)
def test_a_newer_record_is_refused_with_both_schemas_and_what_to_do(record: str) -> None:
    text, decode, where = READERS[record]
    ours = json.loads(text)["schema"]
    newer = json.dumps({**json.loads(text), "schema": ours + 1, "a_later_fact": 1})
    with pytest.raises(NewerRecord) as refused:
        decode(newer)
    assert f"{where} has schema {ours + 1}, but this Slipway reads {ours}" in refused.value.message
    assert refused.value.hint == "a newer Slipway wrote it: use that version or a newer one"
