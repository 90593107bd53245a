"""The four inputs of a step's time: each field is a plain number or word, checked when it is made.

They can be filled from any published row. Another fact is one field here, with a default that changes no
older answer, and its check in __post_init__.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slipway.containers.training.layout import micro_batches
from slipway.jobs.estimate.errors import CannotEstimate

SCHEDULES = ("1f1b", "gpipe", "interleaved")
SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp", "hybrid")
CHECKPOINTING = ("none", "selective", "full")
KINDS = ("dense", "experts", "encoder-decoder")
_NOT_KNOWN = {
    "context": "how much of passing keys and values on is hidden, and how evenly a causal mask is shared out",
    "expert": "how evenly tokens spread over experts, and how much of sending them there is hidden",
}

LARGEST_COUNT = 10_000_000  # of layers, devices, sequences: a larger number is a typing error
LARGEST_AMOUNT = 1e21  # of FLOP/s, bytes and parameters
# Peaks are printed at a nominal clock, and lengths are the longest of a batch, so published rows go beyond 1:
# BERT-Large in 32 bit on V100 at 512 tokens reaches 1.2 of its peak.
MOST_UTILISATION = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Describe a transformer as its paper does."""

    layers: int
    hidden_size: int
    heads: int
    feed_forward: int  # the width inside the feed-forward block; if gated, of one of its halves
    vocabulary: int
    sequence_length: int
    causal: bool  # a decoder: half of each attention matrix is never computed
    gated: bool = False  # SwiGLU and similar: three matrices in the block instead of two
    # Share of the positions that reach the vocabulary head; BERT's masked ones: 20 of 128; 0 for none.
    head_share: float = 1.0
    key_value_heads: int | None = None  # fewer than heads with grouped queries
    parameters: float | None = None  # None: counted from the numbers above
    trained_share: float = 1.0  # of the parameters: adapters leave most of them unchanged
    kind: str = "dense"  # of KINDS

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "heads", "feed_forward", "vocabulary", "sequence_length"):
            _whole(name, getattr(self, name))
        if self.hidden_size % self.heads:
            raise CannotEstimate(
                f"hidden_size {self.hidden_size} is not a multiple of {self.heads} heads",
                hint=f"{_nearest_divisor(self.hidden_size, self.heads)} heads would divide it",
            )
        if self.key_value_heads is not None:
            _whole("key_value_heads", self.key_value_heads)
            if self.heads % self.key_value_heads:
                raise CannotEstimate(
                    f"key_value_heads {self.key_value_heads} does not divide {self.heads} heads",
                    hint=f"{_nearest_divisor(self.heads, self.key_value_heads)} would",
                )
        if not _is_number(self.head_share) or not 0 <= self.head_share <= 1:
            raise CannotEstimate(f"head_share is {self.head_share!r}; it must be from 0 to 1")
        if self.parameters is not None:
            _amount("parameters", self.parameters)
        _share("trained_share", self.trained_share)
        _word("kind", self.kind, KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Describe equal nodes of equal devices. A CPU that trains by itself is one device per node."""

    nodes: int
    devices_per_node: int
    peak_flops: float  # of one device per second, dense, at the precision used
    memory_bytes: float  # of one device
    intra_node_bytes_per_second: float  # from one device to the others of its node; 0 if it is alone
    inter_node_bytes_per_second: float  # sent by one node: 400 Gbit/s are 50e9
    latency_seconds: float = 20e-6  # of one message between two nodes
    has_fused_attention: bool = True  # a kernel that never stores the scores of all pairs of positions
    network: str = ""  # a class of hardware.py, such as efa, infiniband, cpu; "": chosen by the numbers
    accelerator: str = ""  # a name of hardware.py, such as a100; "": chosen by the peak

    def __post_init__(self) -> None:
        _whole("nodes", self.nodes)
        _whole("devices_per_node", self.devices_per_node)
        _amount("peak_flops", self.peak_flops)
        _amount("memory_bytes", self.memory_bytes)
        _amount("intra_node_bytes_per_second", self.intra_node_bytes_per_second, low=0.0)
        _amount("inter_node_bytes_per_second", self.inter_node_bytes_per_second, low=0.0)
        _amount("latency_seconds", self.latency_seconds, low=0.0)
        if self.nodes > 1 and not self.inter_node_bytes_per_second:
            raise CannotEstimate(
                f"inter_node_bytes_per_second is 0 and there are {self.nodes} nodes",
                hint="say how many bytes per second one node injects; 100 Gbit/s are 12.5e9",
            )
        if self.devices_per_node > 1 and not self.intra_node_bytes_per_second:
            raise CannotEstimate(
                f"intra_node_bytes_per_second is 0 and a node has {self.devices_per_node} devices",
                hint="say how many bytes per second a device sends to the others of its node",
            )

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Say how the work is split. Set accumulation_steps or global_batch (sequences per step), not both."""

    micro_batch: int  # sequences that one model replica takes at a time
    accumulation_steps: int | None = None
    global_batch: int | None = None
    tensor: int = 1
    pipeline: int = 1
    schedule: str = "1f1b"
    chunks: int = 1  # of layers on one stage in an interleaved schedule
    sharding: str = "none"
    hybrid_group: int | None = None  # devices that share one copy in hybrid sharding; None: a node's
    checkpointing: str = "none"  # of activations: full recomputes every layer's forward pass
    gradient_bytes: float = 2.0  # sent for one gradient
    gradient_sum_bytes: float = 0.0  # kept besides a gradient: 4 if micro-batches add up in 32 bit
    weight_bytes: float = 2.0  # kept for one weight with which layers compute
    optimizer_bytes: float = 12.0  # kept by the optimizer for one parameter, with its weights in 32 bit
    value_bytes: float = 2.0  # of one value that a layer keeps for its backward
    parameter_bytes: float = 2.0  # sent for one parameter
    offload: bool = False  # the optimizer's state is in the node's own memory
    sequence_parallel: bool = False  # a tensor group shares norms and residuals instead of repeating them
    fused: bool = True  # norms and activations are single kernels, by hand or by torch.compile
    context: int = 1  # devices that share one sequence: refused above 1, as is expert
    expert: int = 1

    def __post_init__(self) -> None:
        for name in ("micro_batch", "tensor", "pipeline", "chunks"):
            _whole(name, getattr(self, name))
        for name in ("accumulation_steps", "global_batch", "hybrid_group"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name))
        for name, unknown in _NOT_KNOWN.items():
            if getattr(self, name) != 1:
                raise CannotEstimate(
                    f"{name} is {getattr(self, name)!r}: {name} parallelism is not estimated, as no "
                    f"published rate tells {unknown}",
                    hint=f"leave {name} at 1; tensor, pipeline and sharding are estimated",
                )
        _word("schedule", self.schedule, SCHEDULES)
        _word("sharding", self.sharding, SHARDINGS)
        _word("checkpointing", self.checkpointing, CHECKPOINTING)
        _amount("gradient_bytes", self.gradient_bytes, high=16.0)
        _amount("gradient_sum_bytes", self.gradient_sum_bytes, low=0.0, high=16.0)
        for name in ("parameter_bytes", "weight_bytes", "optimizer_bytes", "value_bytes"):
            _amount(name, getattr(self, name), high=16.0)
        if self.accumulation_steps is not None and self.global_batch is not None:
            raise CannotEstimate(
                f"both accumulation_steps {self.accumulation_steps} and global_batch {self.global_batch}",
                hint="give one of them: the other follows",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredAt:
    """Hold the facts of a measured configuration that distinguish it from others."""

    hidden_size: int
    sequence_length: int
    causal: bool
    devices: int
    tokens: int  # of a micro-batch
    is_sharded: bool
    checkpointing: str
    tensor: int = 1
    pipeline: int = 1
    is_own: bool = True  # True: measured on the user's machines
    kinds: frozenset[str] = frozenset()  # of spread.py's UNMEASURED_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Hold the two fitted numbers; None is the prior of the hardware's class (hardware.py)."""

    utilisation: float | None = None  # of the peak, while a device computes
    network_efficiency: float | None = None  # of what one node sends
    origin: MeasuredAt | None = field(default=None, compare=False)  # None: nobody said where

    def __post_init__(self) -> None:
        if self.utilisation is not None:
            _share("utilisation", self.utilisation, most=MOST_UTILISATION)
        if self.network_efficiency is not None:
            _share("network_efficiency", self.network_efficiency)


def replicas(model: Model, cluster: Hardware, layout: Layout) -> int:
    """Return how many copies of the model work side by side; refuse a layout that cannot be split so."""
    if layout.pipeline > 1 and layout.sharding in ("zero2", "zero3"):
        raise CannotEstimate(
            f"sharding is {layout.sharding} with {layout.pipeline} pipeline stages, and DeepSpeed runs no "
            "pipeline with ZeRO 2 or 3",
            hint="use zero1, or pipeline=1",
        )
    if model.heads % layout.tensor:
        raise CannotEstimate(
            f"tensor degree {layout.tensor} does not divide {model.heads} heads",
            hint=f"the nearest that does is {_nearest_divisor(model.heads, layout.tensor)}",
        )
    if layout.pipeline * layout.chunks > model.layers:
        raise CannotEstimate(
            f"{layout.pipeline} pipeline stages of {layout.chunks} chunk(s) need more than "
            f"{model.layers} layers",
            hint=f"at most {max(1, model.layers // layout.chunks)} stages fit",
        )
    group = layout.tensor * layout.pipeline
    if cluster.devices % group:
        raise CannotEstimate(
            f"{cluster.devices} devices are not a multiple of {group} "
            f"(tensor {layout.tensor} × pipeline {layout.pipeline})",
            hint=f"the nearest numbers of devices are {_multiples(cluster.devices, group)}",
        )
    return cluster.devices // group


def accumulation(model: Model, cluster: Hardware, layout: Layout, copies: int | None = None) -> int:
    """Return the micro-batches of one replica in one step; `copies` is the number of replicas."""
    if layout.global_batch is None:
        return layout.accumulation_steps or 1
    readers = copies or replicas(model, cluster, layout)
    count = micro_batches(layout.global_batch, layout.micro_batch, readers)
    if count is None:
        at_once = readers * layout.micro_batch
        raise CannotEstimate(
            f"global_batch {layout.global_batch} is not a multiple of the {at_once} sequences that "
            f"{readers} replicas take at a time",
            hint=f"set global_batch to {_multiples(layout.global_batch, at_once)}, or another micro_batch",
        )
    return count


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        raise CannotEstimate(f"{name} is {value!r}; it must be a whole number from 1 to {LARGEST_COUNT:,}")


def _amount(name: str, value: float, *, low: float = 1e-12, high: float = LARGEST_AMOUNT) -> None:
    if not _is_number(value) or not low <= value <= high:  # also refuses nan
        least = "0 or more" if low == 0 else "more than 0"
        raise CannotEstimate(f"{name} is {value!r}; it must be {least} and at most {high:g}")


def _share(name: str, value: float, *, most: float = 1.0) -> None:
    if not _is_number(value) or not 0 < value <= most:
        raise CannotEstimate(f"{name} is {value!r}; it must be more than 0 and at most {most:g}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise CannotEstimate(f"{name} is {value!r}; allowed are {', '.join(allowed)}")


def _nearest_divisor(number: int, wanted: int) -> int:
    return min(
        (each for each in range(1, number + 1) if number % each == 0), key=lambda e: (abs(e - wanted), e)
    )


def _multiples(number: int, of: int) -> str:
    below = number // of * of
    return f"{below} or {below + of}" if below else str(of)
