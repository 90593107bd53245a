"""GPT-J 6B on SST-2, of which an article prints times and no shapes: what they come to at each padded length.

For information only: with the length unknown there is nothing to be right or wrong about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slipway.jobs.estimate.duration import job_seconds, steps_of
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.work.rate import throughput
from slipway.jobs.estimate.work.spread import interval_of
from slipway.jobs.estimate.work.workloads import SST2_EXAMPLES, WORKLOADS
from slipway.jobs.words.catalogue.instances import instance_type

PUBLISHED_SECONDS = 10 * 60.0  # "under ten minutes", from 58
LENGTHS = (32, 64, 128, 256)
_INSTANCE = "p4d.24xlarge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    sequence_length: int
    seconds: float
    least_seconds: float
    most_seconds: float
    published_seconds: float = PUBLISHED_SECONDS


def epochs_by_length() -> Iterator[Assumed]:
    """Yield one epoch per length, predicted from the class's prior, with the range of times that its
    errors allow."""
    instance = instance_type(_INSTANCE)
    own, cluster = WORKLOADS["gpt-j-6b-sst2"], cluster_of(instance, 1)
    for length in LENGTHS:
        made = throughput(replace(own.model, sequence_length=length), cluster, own.layout)
        seconds = job_seconds(made, steps_of(SST2_EXAMPLES, 1, made.sequences_per_step))
        least, most = interval_of(seconds, made.spread)
        yield Assumed(
            sequence_length=length,
            seconds=seconds,
            least_seconds=least,
            most_seconds=most,
        )
