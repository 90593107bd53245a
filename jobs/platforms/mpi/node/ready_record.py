"""The readiness of the cluster in its bucket: the main node writes it, and a node takes its own answer back.

A record outlives what it tells of: a node that restarts is the same instance, and would count as ready while
it is down. Two that restart in one moment may overwrite each other; the main node then finds no sshd.
"""

from __future__ import annotations

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.cloud.objects import find_object
from slipway.jobs.platforms.mpi.node.setting import Setup
from slipway.jobs.words.mpi.mpi_nodes import (
    READY_KEY,
    Readiness,
    decode_readiness,
    encode_readiness,
    has_answered,
    take_back,
)

STOPS = "it shuts down or restarts"
STARTED = "it has just started, and has not been asked yet"


def read_record(setup: Setup) -> Readiness | None:
    answer = find_object(reader("s3", setup.region), "GetObject", Bucket=setup.bucket, Key=READY_KEY)
    return decode_readiness(answer["Body"].read().decode()) if answer else None


def write_record(setup: Setup, readiness: Readiness) -> None:
    client("s3", setup.region).put_object(
        Bucket=setup.bucket, Key=READY_KEY, Body=encode_readiness(readiness), ContentType="application/json"
    )


def take_back_answer(setup: Setup, instance_id: str, why: str) -> None:
    """Tell everybody that this node does not count until the main node has asked it again."""
    record = read_record(setup)
    if record and has_answered(record, instance_id):
        write_record(setup, take_back(record, instance_id, why))
