"""Estimate the ways in which a job can run in a pool: the fastest of each technique and size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import job_seconds, steps_of_workload
from slipway.jobs.estimate.evidence.calibrations import Asked, find_calibration
from slipway.jobs.estimate.evidence.measurements import Measurement
from slipway.jobs.estimate.fitting import band_of, fit
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.work.rate import throughput
from slipway.jobs.estimate.work.shapes import Hardware
from slipway.jobs.estimate.work.workloads import Workload
from slipway.jobs.plan.search.model import Mode, Pool
from slipway.jobs.plan.techniques.techniques import TECHNIQUES, Variant, doubling
from slipway.jobs.words.catalogue.instances import InstanceType, instance_type

MOST_ERROR = 0.5  # the most that a plan counts with: rates may be off by more, times by at most 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedJob:
    """Hold what an estimate of modes needs of a job."""

    workload: Workload
    rows: Sequence[Measurement]
    # A recipe need not have all settings that a technique sets.
    accepts: Callable[[Mapping[str, str]], bool] = lambda settings: True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    devices: int
    ranks: int
    on_a_node: int
    cluster: Hardware
    instance: InstanceType


def modes(job: EstimatedJob, pool: Pool) -> Iterator[Mode]:
    """Yield for each technique and number of devices the fastest variant that fits, if one does."""
    for technique, size in product(TECHNIQUES.values(), list(_sizes(pool))):
        found = [
            mode
            for variant in technique(size.ranks, size.on_a_node)
            if job.accepts(variant.settings)
            for mode in _mode(job, size, variant)
        ]
        if found:
            yield min(found, key=lambda mode: mode.seconds)


def device_counts(pool: Pool) -> list[int]:
    """Return 1, 2, 4, … and all devices of a node, then whole nodes likewise."""
    inside = doubling(pool.devices_per_node)
    if not pool.spans_nodes:
        return inside
    return [*inside, *(nodes * pool.devices_per_node for nodes in doubling(pool.nodes) if nodes > 1)]


def _sizes(pool: Pool) -> Iterator[_Size]:
    instance = instance_type(pool.type)
    node = cluster_of(instance, 1)
    workers = max(1, node.devices_per_node // pool.devices_per_node)  # ranks for each device of the plan
    for devices in device_counts(pool):
        nodes, inside = max(1, devices // pool.devices_per_node), min(devices, pool.devices_per_node)
        on_a_node = inside * workers
        cluster = replace(cluster_of(instance, nodes), devices_per_node=on_a_node)
        yield _Size(
            devices=devices,
            ranks=nodes * on_a_node,
            on_a_node=on_a_node,
            cluster=cluster,
            instance=instance,
        )


def _mode(job: EstimatedJob, size: _Size, variant: Variant) -> Iterator[Mode]:
    """Yield the variant as a mode; nothing if it cannot split the model, or does not fit."""
    workload = job.workload
    spread: dict[str, Any] = {"tensor": 1, "pipeline": 1, "sharding": "none", "checkpointing": "none"}
    layout = replace(workload.layout, **{**spread, "schedule": "1f1b", "chunks": 1, **variant.layout})
    try:
        if not fit(workload.model, size.cluster, layout).fits:
            return
        known = find_calibration(
            job.rows,
            Asked(
                instance=size.instance.name,
                model_name=workload.model_name,
                model=workload.model,
                cluster=size.cluster,
                layout=layout,
                workload=workload.task or workload.name,
            ),
        )
        rate = throughput(workload.model, size.cluster, layout, known.calibration)
    except CannotEstimate:
        return
    yield Mode(
        technique=variant.name,
        type=size.instance.name,
        devices=size.devices,
        seconds=math.ceil(job_seconds(rate, _steps(workload, rate.sequences_per_step))),
        source="estimated",
        error=min(MOST_ERROR, band_of(rate.spread)),
        settings=variant.pairs,
    )


def _steps(workload: Workload, per_step: int) -> int:
    steps = steps_of_workload(workload, per_step)
    if steps is None:
        raise CannotEstimate(
            f"{workload.name} has no end, and a plan needs one", hint="say --set sequences=100000"
        )
    return steps
