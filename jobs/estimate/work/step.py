"""Computes the time of one training step: computing, the pipeline's bubble, the optimizer, communication.

Data-parallel traffic is hierarchical: each node first adds up inside, then sends one copy of what it has.
Another kind of traffic is one function that returns seconds, and one field of StepTime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.jobs.estimate.hardware import REFERENCE_WIDTH, WAIT, Prior, prior
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model, accumulation, replicas
from slipway.jobs.estimate.work.work import (
    backward_share,
    executed_flops,
    parameter_count,
    score_share,
)

# The numbers below are fitted to the published rows, all tables together (docs/estimate.md).
_SLOW_SCORES = 9.0  # time besides matrices for attention's scores, relative to that for other matrices
# Share of the traffic that no computation hides, however much computation there is. FSDP fetches ahead;
# DeepSpeed's ZeRO and plain data parallelism, as measured, wait for nearly all.
_EXPOSED_AHEAD, _EXPOSED = 0.5, 0.9
_HIDES = 0.9  # of the time of computing, at most
_HIDDEN_BY_PROCESSORS = 0.25  # of the time of a backward pass: the cores that compute also send
_OPTIMIZER_BYTES = 25.0  # that an optimizer's step moves in memory for one parameter
_LAUNCH_SECONDS = 70e-6  # to start the kernels of one layer, forward and backward
_REPEATED = 0.2  # of the time besides matrices: norms and residuals, repeated in a tensor group
_SHARED = 0.1  # the same with sequence parallelism, where the group shares them
_EAGER = 2.25  # time of norms and activations as many kernels, relative to fused ones
_FIXED_SECONDS = 7e-3  # of a step, whatever its size: the loop, the optimizer's kernels, the loss

_ACTIVATION_BYTES = 2.0
_BUCKET_BYTES = 25e6  # in which frameworks send gradients
_COLLECTIVES = 3  # of a fully sharded layer: weights for each pass, and gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Hold the seconds of one step, all of them exposed: time hidden by computation is in no field."""

    compute: float
    bubble: float
    tensor: float
    pipeline: float
    data: float
    optimizer: float  # its step, and the fixed time of a step
    wait: float  # for the slowest node

    @property
    def seconds(self) -> float:
        sending = self.tensor + self.pipeline + self.data
        return self.compute + self.bubble + sending + self.optimizer + self.wait


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """Hold what all parts of a step need."""

    model: Model
    cluster: Hardware
    layout: Layout
    replicas: int
    micro_batches: int
    micro_seconds: float  # of one micro-batch on one stage, computing only
    bytes_per_second: float  # that collectives really send from one node
    prior: Prior
    own_parameters: float  # of one device, before any sharding

    @property
    def replicas_in_node(self) -> int:
        """Count the replicas in a node. In Megatron's order, a tensor group comes first, then replicas."""
        return max(1, min(self.replicas, self.cluster.devices_per_node // self.layout.tensor))

    @property
    def stages_in_node(self) -> int:
        places = self.cluster.devices_per_node // (self.layout.tensor * self.replicas_in_node)
        return max(1, min(self.layout.pipeline, places))

    @property
    def backward_seconds(self) -> float:
        """Return the backward seconds of one micro-batch, in which recomputed layers run, too."""
        extra = 1.0 if self.layout.checkpointing == "full" else 0.0
        backward = backward_share(self.model) + extra
        return self.micro_seconds * backward / (1 + backward)

    @property
    def gradient_bytes(self) -> float:
        """Return the gradient bytes sent for a parameter, averaged over those that have no gradient, too."""
        return self.layout.gradient_bytes * self.model.trained_share


def step(model: Model, cluster: Hardware, layout: Layout, calibration: Calibration) -> StepTime:
    split = _split(model, cluster, layout, calibration)
    compute = split.micro_seconds * split.micro_batches
    tensor = _tensor_seconds(split)
    bubble = (layout.pipeline - 1) * (split.micro_seconds + tensor) / _chunks(layout)
    pipeline = _pipeline_seconds(split) * split.micro_batches
    data, optimizer = _data_seconds(split), _optimizer_seconds(split)
    tensor *= split.micro_batches
    strays = WAIT * math.sqrt(2 * math.log(cluster.nodes))  # how far the slowest of n is from the mean
    return StepTime(
        compute=compute,
        bubble=bubble,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        optimizer=optimizer,
        wait=(compute + bubble + tensor + pipeline + data + optimizer) * strays,
    )


def _split(model: Model, cluster: Hardware, layout: Layout, calibration: Calibration) -> _Split:
    known = prior(cluster)
    efficiency = calibration.network_efficiency or known.network_efficiency
    group = layout.tensor * layout.pipeline
    copies = replicas(model, cluster, layout)
    return _Split(
        model=model,
        cluster=cluster,
        layout=layout,
        replicas=copies,
        micro_batches=accumulation(model, cluster, layout, copies),
        micro_seconds=_micro_seconds(model, cluster, layout, calibration.utilisation or known.utilisation),
        bytes_per_second=cluster.inter_node_bytes_per_second * efficiency,
        prior=known,
        own_parameters=parameter_count(model) / group,
    )


def _micro_seconds(model: Model, cluster: Hardware, layout: Layout, utilisation: float) -> float:
    """Return the computing seconds of one micro-batch on one stage.

    A utilisation below 1 adds time to that at the peak, and a layer's shape scales the added time. So the
    shape can never make a device faster than its peak, nor a measured rate impossible.
    """
    group = layout.tensor * layout.pipeline
    known = prior(cluster)
    flops = executed_flops(model, layout) * (1 + (known.score_cost - 1) * score_share(model))
    at_peak = flops * layout.micro_batch / (group * cluster.peak_flops)
    overhead = 1 / utilisation - 1
    shape = _shape(model, cluster, layout) if overhead > 0 else 1.0
    launching = model.layers / layout.pipeline * _LAUNCH_SECONDS if known.launches else 0.0
    return (at_peak * (1 + overhead * shape) + launching) * uneven(model, layout)


def _shape(model: Model, cluster: Hardware, layout: Layout) -> float:
    """Return the time besides the matrices, relative to that of a whole layer of the reference's width.

    Norms, dropout and the like grow with the width and the matrices with its square; they wait for memory.
    """
    narrow = prior(cluster).narrow_width
    if narrow is None:
        return 1.0
    overhead = narrow / model.hidden_size * (1 if layout.fused else _EAGER)
    cost = 1 + overhead + _SLOW_SCORES * score_share(model)
    repeated = _SHARED if layout.sequence_parallel else _REPEATED
    return cost / (1 + narrow / REFERENCE_WIDTH) * (1 + repeated * (layout.tensor - 1))


def uneven(model: Model, layout: Layout) -> float:
    """Return the slowdown compared with an even split: all stages wait for the one with the most layers."""
    parts = layout.pipeline * _chunks(layout)
    return math.ceil(model.layers / parts) * parts / model.layers


def _chunks(layout: Layout) -> int:
    return layout.chunks if layout.schedule == "interleaved" else 1


def _tensor_seconds(split: _Split) -> float:
    """Return the tensor-parallel seconds of one micro-batch on one stage.

    Each layer adds up its activations twice forward and twice backward.
    """
    degree, model, layout = split.layout.tensor, split.model, split.layout
    if degree == 1:
        return 0.0
    sums = 6 if layout.checkpointing == "full" else 4
    activations = layout.micro_batch * model.sequence_length * model.hidden_size * _ACTIVATION_BYTES
    layers = model.layers / layout.pipeline
    in_node = min(degree, split.cluster.devices_per_node)
    seconds = 0.0
    if in_node > 1:
        inside = split.cluster.intra_node_bytes_per_second * split.prior.in_node_efficiency
        seconds += _ring(in_node) * activations / inside
    nodes = math.ceil(degree / split.cluster.devices_per_node)
    if nodes > 1:
        seconds += _ring(nodes) * activations / split.bytes_per_second
    return sums * layers * seconds


def _pipeline_seconds(split: _Split) -> float:
    """Return the pipeline seconds of one micro-batch.

    Across nodes, activations go to the next stage and gradients back.
    """
    layout, cluster = split.layout, split.cluster
    if layout.pipeline == split.stages_in_node:
        return 0.0
    activations = layout.micro_batch * split.model.sequence_length * split.model.hidden_size
    at_once = max(1, cluster.devices_per_node // layout.tensor)
    sent = 2 * activations * _ACTIVATION_BYTES * at_once * _chunks(layout)
    return sent / split.bytes_per_second + 2 * cluster.latency_seconds


def _data_seconds(split: _Split) -> float:
    if split.replicas == 1:
        return 0.0
    sharding = split.layout.sharding
    if sharding in ("zero3", "fsdp", "hybrid"):
        return _fully_sharded_seconds(split)
    reduce = _one_way(split, split.gradient_bytes, split.replicas)
    spread_bytes = split.layout.gradient_bytes if sharding == "none" else split.layout.parameter_bytes
    spread = _one_way(split, spread_bytes * split.model.trained_share, split.replicas)
    window = split.backward_seconds
    if sharding == "zero2":  # reduces after every micro-batch
        return split.micro_batches * _exposed(split, reduce, _EXPOSED, window) + spread
    if sharding == "zero1":  # the parameters come after the optimizer, when nothing computes
        return _exposed(split, reduce, _EXPOSED, window) + spread
    return _exposed(split, reduce + spread, _EXPOSED, window)


def _exposed(split: _Split, sent: float, share: float, window: float) -> float:
    """Return the seconds that computing does not hide: a share of them, or what its time is too short for."""
    if not split.prior.launches:
        return max(0.0, sent - _HIDDEN_BY_PROCESSORS * window)
    return max(share * sent, sent - _HIDES * window)


def _optimizer_seconds(split: _Split) -> float:
    """Return the seconds of the optimizer's step, which memory limits, and the fixed time of a step."""
    shards = 1 if split.layout.sharding == "none" else min(split.replicas, _shard_group(split))
    moved = split.own_parameters * split.model.trained_share * _OPTIMIZER_BYTES / shards
    fixed = _FIXED_SECONDS if split.prior.launches else 0.0
    return moved / split.prior.memory_bytes_per_second + fixed


def _fully_sharded_seconds(split: _Split) -> float:
    """Return the seconds of full sharding, layer by layer around all nodes.

    Every micro-batch gathers the parameters twice and reduces the gradients once. Stages of a pipeline keep
    what they gathered for all micro-batches of a step.
    """
    layout = split.layout
    group = min(split.replicas, _shard_group(split))
    gather = 2 * _one_way(split, layout.parameter_bytes, group)
    reduce = _one_way(split, split.gradient_bytes, group)
    nodes = math.ceil(group / min(group, split.replicas_in_node))
    ring = _COLLECTIVES * split.model.layers / layout.pipeline * (nodes - 1) * split.cluster.latency_seconds
    times = 1 if layout.pipeline > 1 else split.micro_batches
    share = _EXPOSED if layout.sharding == "zero3" else _EXPOSED_AHEAD
    exposed = times * _exposed(split, gather + reduce + ring, share, split.micro_seconds)
    copies = split.replicas // group
    nodes = copies if group >= split.replicas_in_node else split.replicas // split.replicas_in_node
    if copies > 1 and nodes > 1:  # add up each shard's gradients over the copies, once in a step
        share_of_a_node = min(1.0, split.replicas_in_node / group)
        sent = _held_by_node(split) * share_of_a_node * split.gradient_bytes * _ring(nodes)
        seconds = sent / split.bytes_per_second
        exposed += _exposed(split, seconds, _EXPOSED_AHEAD, split.backward_seconds)
    return exposed


def _shard_group(split: _Split) -> int:
    if split.layout.sharding != "hybrid":
        return split.replicas
    return split.layout.hybrid_group or split.replicas_in_node


def _one_way(split: _Split, bytes_each: float, ranks: int) -> float:
    """Return the seconds of a reduce-scatter or all-gather of all that a replica holds, over `ranks`."""
    in_node = min(ranks, split.replicas_in_node)
    nodes = math.ceil(ranks / in_node)
    seconds = 0.0
    if in_node > 1:
        sent_bytes = split.own_parameters * bytes_each
        inside = split.cluster.intra_node_bytes_per_second * split.prior.in_node_efficiency
        seconds += (in_node - 1) / in_node * sent_bytes / inside
    if nodes > 1:
        sent = _held_by_node(split) * bytes_each
        messages = math.ceil(sent / _BUCKET_BYTES / split.cluster.devices_per_node)
        seconds += (nodes - 1) / nodes * sent / split.bytes_per_second
        seconds += messages * math.log2(nodes) * split.cluster.latency_seconds
    return seconds


def _held_by_node(split: _Split) -> float:
    """Return the parameters of which a node has at least one copy."""
    stages = split.stages_in_node / split.layout.pipeline
    return (
        parameter_count(split.model) * stages * min(1.0, split.cluster.devices_per_node / split.layout.tensor)
    )


def _ring(members: int) -> float:
    """Return what each member of an all-reduce sends, in units of what is added up."""
    return 2 * (members - 1) / members
