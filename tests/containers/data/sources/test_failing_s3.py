"""F26, F27: text is read whole from an S3 that is busy, resets connections or answers wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("obstore")

from slipway.containers.data.errors import DataError
from slipway.containers.data.sources import source_s3, sources
from slipway.containers.data.sources.locations import open_source
from slipway.containers.data.sources.sources import Source, read_whole
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE
from tests.containers.data.failing_s3 import (
    FailingS3,
    Fault,
    failing,
    of_another_version,
    refusing,
    resetting,
    shorter_by,
)
from tests.fault_clock import FaultClock

BLOCK, BLOCKS = 64 << 10, 24
SLOW_DOWN = refusing(503, "SlowDown")
BURST = (SLOW_DOWN, refusing(500, "InternalError"), refusing(429, "TooManyRequests"))


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(sources, "BLOCK_BYTES", BLOCK)
    with failing(
        FailingS3("wiki/a.txt", b"".join(number.to_bytes(4) for number in range(BLOCK * BLOCKS // 4)))
    ) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", running.endpoint)
        yield running


@pytest.fixture
def source(s3: FailingS3) -> Source:
    return open_source("s3://texts/wiki")


def test_a_reader_waits_a_burst_of_refusals_out_and_goes_on_as_before(
    s3: FailingS3, source: Source, fault: FaultClock
) -> None:
    """The first eight stretches, which are asked for at once, are refused three times each."""
    s3.faults, s3.until = BURST, 8 * BLOCK
    fault.strikes()
    assert read_whole(source, "a.txt") == s3.content
    fault.is_over()
    asked = [stop // BLOCK for _, stop in s3.ranges]
    assert [asked.count(block) for block in range(1, BLOCKS + 1)] == [4] * 8 + [1] * 16


def test_an_s3_that_stays_busy_ends_the_reading_with_its_word(
    s3: FailingS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_s3, "RETRIES", source_s3.RETRIES | {"max_retries": 2})
    s3.forever, began = SLOW_DOWN, time.monotonic()
    source = open_source("s3://texts/wiki")
    told = r"^s3://texts/wiki/a\.txt: the request failed: SlowDown; run"
    with pytest.raises(DataError, match=told) as refused:
        source.read("a.txt", 0, BLOCK)
    assert refused.value.exit_code == RESUMABLE_EXIT_CODE, "another attempt may find it less busy"
    assert len(s3.ranges) == 3
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("faults", [(resetting(0), resetting(0)), (resetting(0), SLOW_DOWN)])
def test_a_connection_that_is_reset_before_its_answer_is_made_again(
    s3: FailingS3, source: Source, faults: tuple[Fault, ...]
) -> None:
    s3.faults = faults
    assert source.read("a.txt", 0, BLOCK) == s3.content[:BLOCK]
    assert s3.ranges == [(0, BLOCK)] * 3


def test_a_body_that_is_reset_in_its_midst_is_asked_for_from_there_on(s3: FailingS3, source: Source) -> None:
    length = BLOCK * BLOCKS
    s3.faults = (resetting(0.5), resetting(0.5))
    assert source.read("a.txt", 0, length) == s3.content
    assert s3.ranges == [(0, length), (length // 2, length), (length * 3 // 4, length)]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (shorter_by(7), ": the server answers with other bytes than were asked for"),
        (of_another_version, " changed since the run began"),
    ],
)
def test_bytes_that_were_not_asked_for_are_refused(
    s3: FailingS3, source: Source, fault: Fault, told: str
) -> None:
    s3.forever = fault
    with pytest.raises(DataError, match=rf"^s3://texts/wiki/a\.txt{told}"):
        source.read("a.txt", 0, BLOCK)
