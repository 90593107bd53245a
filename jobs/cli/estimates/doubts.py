"""What an estimate warns of: settings that work and cost more than expected. Another is one row of DOUBTS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from slipway.jobs.words.recipes import RECIPES, find_recipe, refuse_torch

if TYPE_CHECKING:
    from slipway.jobs.estimate.estimates import Estimate, PricedHardware
    from slipway.jobs.estimate.work.workloads import Workload

    Doubt = Callable[[Workload, PricedHardware, Sequence[Estimate]], Iterator[str]]

# A device reads each weight once a micro-batch and computes two operations with it a token: an A100 does 200
# operations in the time of a byte (312 TFLOP/s over 1.6 TB/s), an H100 295. With fewer it waits for memory.
FEW_TOKENS = 300


def doubts(workload: Workload, place: PricedHardware, found: Sequence[Estimate]) -> Iterator[str]:
    """Yield a warning for each setting that costs more than expected."""
    for doubt in DOUBTS:
        yield from doubt(workload, place, found)


def refused_layouts(job: str, place: PricedHardware, settings: Sequence[str]) -> Iterator[str]:
    """Yield why submitting the same would be refused: its layout is not proved on the cluster's image."""
    from slipway.jobs.words.job import DoesNotFit, parse_settings

    try:
        if job in RECIPES:
            refuse_torch(find_recipe(job), parse_settings(tuple(settings)), place.instance, place.torch)
    except DoesNotFit as refused:
        yield f"slipway submit would refuse it: {refused.message}; {refused.hint}"


def _idle_devices(workload: Workload, place: PricedHardware, _found: Sequence[Estimate]) -> Iterator[str]:
    rows = workload.layout.micro_batch
    tokens = rows * workload.model.sequence_length
    if workload.name in RECIPES and place.instance.accelerator and tokens < FEW_TOKENS:
        yield (
            f"a micro-batch of {rows} rows has {tokens} tokens, and with fewer than some {FEW_TOKENS} an "
            "accelerator waits for its memory: it will be slower than this, so set a larger micro_batch"
        )


def _uneven_stages(workload: Workload, _place: PricedHardware, _found: Sequence[Estimate]) -> Iterator[str]:
    from slipway.jobs.estimate.work.step import uneven

    layout, model = workload.layout, workload.model
    if (share := uneven(model, layout)) > 1:
        yield (
            f"{model.layers} layers over {layout.pipeline} stages are uneven: all wait for the fullest, "
            f"which makes a step {share - 1:.0%} longer"
        )


def _tensors_across_nodes(
    workload: Workload, place: PricedHardware, found: Sequence[Estimate]
) -> Iterator[str]:
    from slipway.jobs.estimate.errors import CannotEstimate
    from slipway.jobs.estimate.estimates import estimate
    from slipway.jobs.estimate.inputs.own_data import measurements

    layout = workload.layout
    for own in found:
        in_node = own.devices // own.nodes
        if layout.tensor > in_node:
            inside = replace(workload, layout=replace(layout, tensor=in_node))
            with suppress(CannotEstimate):
                rate = estimate(inside, place, own.nodes, measurements()).sequences_per_second
                yield (
                    f"tensor degree {layout.tensor} crosses nodes of {in_node} devices: on {own.nodes} nodes "
                    f"tensor={in_node} trains {rate / own.sequences_per_second:.1f} times as fast"
                )


DOUBTS: tuple[Doubt, ...] = (_idle_devices, _uneven_stages, _tensors_across_nodes)
