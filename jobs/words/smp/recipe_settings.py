"""Translates SMP's parameters to settings of our own recipes, which divide a model over ranks themselves.

containers/training/layout.py has the layout, and containers/training/config.py the settings. SMP v1 calls
"interleaved" what is usually called 1F1B: a backward comes before a forward wherever possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slipway.containers.training.layout import ImpossibleLayout, Layout
from slipway.jobs.words.errors import Problem, SlipwayError
from slipway.jobs.words.smp.parameters import SmpV2, refuse_without_equal
from slipway.jobs.words.smp.smp_v1 import PLACEMENTS, SmpV1

_HERE = "a recipe"
_OUR_ORDER = "PDT"  # containers/training/layout.py, DIMENSIONS: ranks of a tensor group are neighbours
_ANY_PLACE = "cluster"  # the library's default: the user asked for no placement
_SCHEDULES = {"simple": "gpipe", "interleaved": "1f1b"}
_BUCKETS = "leave it out: PyTorch's FSDP decides by itself how it moves weights"
_HORIZON = "leave it out: activations come back a layer ahead"
_NOT_HERE_V1: Mapping[str, str] = {
    "memory_weight": "leave it out: the recipe itself cuts layers into stages",
    "auto_partition": "leave it out: the recipe itself cuts layers into stages",
    "default_partition": "leave it out: the recipe itself cuts layers into stages",
    "activation_loading_horizon": _HORIZON,
    "ddp_port": "leave it out: the launcher chooses a free port",
    "ddp_dist_backend": "leave it out: --set backend says who carries gradients",
    "sdp_reduce_bucket_size": _BUCKETS,
    "sdp_param_persistence_threshold": _BUCKETS,
    "sdp_max_live_parameters": _BUCKETS,
    "sdp_hierarchical_allgather": _BUCKETS,
}
_NOT_HERE_V2: Mapping[str, str] = {
    "context_parallel_degree": "leave it out and raise tensor, or keep fewer activations",
    "expert_parallel_degree": "leave it out: no recipe has a mixture of experts",
    "allow_empty_shards": "leave it out: shares may be empty",
    "activation_loading_horizon": _HORIZON,
    "fsdp_cache_flush_warnings": "leave it out: `slipway logs` shows the device's memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """Hold how many ranks a training has, and how many rows a step."""

    world: int
    global_batch: int


def settings_of_v1(smp: SmpV1, size: StepSize) -> dict[str, str]:
    """Return settings for the same training; raise NoEqual with every parameter without an equivalent."""
    degrees = {"tensor": smp.tensor_parallel_degree, "pipeline": smp.pipeline_parallel_degree}
    layout = _layout(size.world, sharded=smp.sharded_data_parallel_degree, **degrees)
    if smp.shard_optimizer_state:
        # There is no setting that divides only the optimizer's state: it is divided with weights and
        # gradients.
        layout = _layout(size.world, sharded=layout.readers, **degrees)
    refuse_without_equal(smp, _NOT_HERE_V1, _HERE, also=_unequal_in(layout, smp))
    settings = _settings(layout)
    rows, rest = divmod(size.global_batch, layout.readers * smp.microbatches)
    if rest or not rows:
        raise SlipwayError(
            f"global_batch={size.global_batch} is no multiple of {layout.readers} readers × "
            f"{smp.microbatches} micro-batches",
            hint=f"set a multiple of {layout.readers * smp.microbatches}",
        )
    settings["micro_batch"] = str(rows)
    if layout.pipeline > 1:
        settings["pipeline_schedule"] = _SCHEDULES[smp.pipeline]
    if smp.fp16 or smp.fp16_params or smp.bf16:
        settings["precision"] = "bf16" if smp.bf16 else "fp16"
    if smp.sharded_data_parallel_degree > 1:
        settings["clip_norm"] = f"{smp.sdp_gradient_clipping:g}"
    if smp.offload_activations:  # as in SMP, of layers that are computed again
        settings |= {"checkpoint_activations": "layer", "offload_activations": "yes"}
    return settings


def settings_of_v2(smp: SmpV2, size: StepSize) -> dict[str, str]:
    """Return settings for the same training; raise NoEqual with every parameter without an equivalent."""
    refuse_without_equal(smp, _NOT_HERE_V2, _HERE)
    tensor = smp.tensor_parallel_degree
    layout = _layout(size.world, sharded=max(1, smp.hybrid_shard_degree), tensor=tensor)
    if smp.hybrid_shard_degree == 0:
        layout = _layout(size.world, sharded=layout.readers, tensor=tensor)
    settings = _settings(layout)
    if smp.random_seed is not None:
        settings["seed"] = str(smp.random_seed)
    return settings


def _unequal_in(layout: Layout, smp: SmpV1) -> Iterator[Problem]:
    """Yield parameters without an equivalent in this layout; in other layouts they change nothing."""
    degrees = {"P": layout.pipeline, "D": layout.readers, "T": layout.tensor}
    orders = PLACEMENTS.get(smp.placement_strategy, smp.placement_strategy), _OUR_ORDER
    asked, ours = ([letter for letter in order if degrees[letter] > 1] for order in orders)
    if asked != ours and smp.placement_strategy != _ANY_PLACE:
        message = f"is {smp.placement_strategy!r}, which has no equal in {_HERE}"
        hint = f"leave it out: ranks are placed as by {_OUR_ORDER!r}"
        yield Problem(where="placement_strategy", message=message, hint=hint)
    if layout.pipeline > 1 and smp.pipeline == "interleaved" and smp.active_microbatches:
        message = f"is {smp.active_microbatches}, which has no equal in {_HERE}"
        hint = f"leave it out: 1f1b keeps {layout.pipeline} micro-batches active at most"
        yield Problem(where="active_microbatches", message=message, hint=hint)
    if layout.pipeline > smp.microbatches:
        message = f"is {smp.microbatches}, and {layout.pipeline} stages would stand idle"
        yield Problem(where="microbatches", message=message, hint=f"set {layout.pipeline} or more")


def _layout(world: int, *, sharded: int = 1, tensor: int = 1, pipeline: int = 1) -> Layout:
    try:
        return Layout.of(world, sharded=sharded, tensor=tensor, pipeline=pipeline)
    except ImpossibleLayout as error:
        raise SlipwayError(error.message, hint=error.hint) from None


def _settings(layout: Layout) -> dict[str, str]:
    degrees = {"tensor": layout.tensor, "pipeline": layout.pipeline, "sharded": layout.sharded}
    return {name: str(degree) for name, degree in degrees.items()}
