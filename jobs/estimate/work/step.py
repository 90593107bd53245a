"""The time of one training step: computing, the pipeline's bubble, and what is sent, part by part.

Data-parallel traffic is hierarchical: each node first adds up inside, then sends one copy of what it holds.
A further kind of traffic is one function that returns seconds, and one field of Step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from slipway.jobs.estimate.priors import IN_NODE_EFFICIENCY, REFERENCE_WIDTH, WAIT, prior
from slipway.jobs.estimate.work.shapes import Calibration, Hardware, Layout, Model, accumulation, replicas
from slipway.jobs.estimate.work.work import backward_share, parameter_count, recomputed_flops, training_flops

_ACTIVATION_BYTES = 2.0
_BUCKET_BYTES = 25e6  # in which frameworks send gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Hold the seconds of one step, all of them exposed: what overlaps with computation is in no field."""

    compute: float
    bubble: float
    tensor: float
    pipeline: float
    data: float
    wait: float  # for the slowest node

    @property
    def seconds(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """Hold what all parts of a step ask about."""

    model: Model
    cluster: Hardware
    layout: Layout
    replicas: int
    micro_batches: int
    micro_seconds: float  # of one micro-batch on one stage, computing only
    bytes_per_second: float  # that collectives really inject from one node
    overlap: float

    @property
    def replicas_in_node(self) -> int:
        """Count the replicas in a node in Megatron's order: the parts of a tensor first, then replicas,
        then stages."""
        return max(1, min(self.replicas, self.cluster.devices_per_node // self.layout.tensor))

    @property
    def stages_in_node(self) -> int:
        places = self.cluster.devices_per_node // (self.layout.tensor * self.replicas_in_node)
        return max(1, min(self.layout.pipeline, places))

    @property
    def backward_seconds(self) -> float:
        """Return the backward seconds of one micro-batch; recomputed layers run in it too."""
        extra = 1.0 if self.layout.checkpointing == "full" else 0.0
        backward = backward_share(self.model) + extra
        return self.micro_seconds * backward / (1 + backward)

    @property
    def gradient_bytes(self) -> float:
        """Return the bytes sent for a parameter's gradient, of those that have none too."""
        return self.layout.gradient_bytes * self.model.trained_share


def step(model: Model, cluster: Hardware, layout: Layout, calibration: Calibration) -> StepTime:
    split = _split(model, cluster, layout, calibration)
    compute = split.micro_seconds * split.micro_batches
    tensor = _tensor_seconds(split)
    stages = layout.pipeline - 1
    bubble = stages * (split.micro_seconds + tensor) / _chunks(layout)
    own = StepTime(
        compute=compute,
        bubble=bubble,
        tensor=tensor * split.micro_batches,
        pipeline=_pipeline_seconds(split) * split.micro_batches,
        data=_data_seconds(split),
        wait=0.0,
    )
    strays = WAIT * math.sqrt(2 * math.log(cluster.nodes))  # how far the slowest of n lies from the mean
    return StepTime(
        **{field.name: getattr(own, field.name) for field in fields(own)} | {"wait": own.seconds * strays}
    )


def _split(model: Model, cluster: Hardware, layout: Layout, calibration: Calibration) -> _Split:
    known = prior(cluster)
    utilisation = calibration.utilisation or known.utilisation
    efficiency = calibration.network_efficiency or known.network_efficiency
    executed = training_flops(model) + recomputed_flops(model, layout)
    between = _between_matrices(known.narrow_width, model) * uneven(model, layout)
    group = layout.tensor * layout.pipeline
    return _Split(
        model=model,
        cluster=cluster,
        layout=layout,
        replicas=replicas(model, cluster, layout),
        micro_batches=accumulation(model, cluster, layout),
        micro_seconds=executed * layout.micro_batch * between / (group * cluster.peak_flops * utilisation),
        bytes_per_second=cluster.inter_node_bytes_per_second * efficiency,
        overlap=known.overlap,
    )


def uneven(model: Model, layout: Layout) -> float:
    """Return the slowdown against an even split: all stages wait for the one that holds most layers."""
    parts = layout.pipeline * _chunks(layout)
    return math.ceil(model.layers / parts) * parts / model.layers


def _between_matrices(narrow_width: float, model: Model) -> float:
    """Scale the utilisation to a layer of another width: norms, dropout and the like take their share of a
    narrow layer.

    Their time grows with the width and that of the matrices with its square, so a wider model computes nearer
    to the peak. A table of one model is not affected.
    """
    return (1 + narrow_width / model.hidden_size) / (1 + narrow_width / REFERENCE_WIDTH)


def _chunks(layout: Layout) -> int:
    return layout.chunks if layout.schedule == "interleaved" else 1


def _tensor_seconds(split: _Split) -> float:
    """Return the tensor-parallel seconds of one micro-batch on one stage: each layer adds up its
    activations twice forward and twice backward."""
    degree, model, layout = split.layout.tensor, split.model, split.layout
    if degree == 1:
        return 0.0
    sums = 6 if layout.checkpointing == "full" else 4
    activations = layout.micro_batch * model.sequence_length * model.hidden_size * _ACTIVATION_BYTES
    layers = model.layers / layout.pipeline
    in_node = min(degree, split.cluster.devices_per_node)
    seconds = 0.0
    if in_node > 1:
        inside = split.cluster.intra_node_bytes_per_second * IN_NODE_EFFICIENCY
        seconds += _ring(in_node) * activations / inside
    nodes = math.ceil(degree / split.cluster.devices_per_node)
    if nodes > 1:
        seconds += _ring(nodes) * activations / split.bytes_per_second
    return sums * layers * seconds


def _pipeline_seconds(split: _Split) -> float:
    """Return the pipeline seconds of one micro-batch: activations go to the next stage and gradients back
    across nodes."""
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
    spread_bytes *= split.model.trained_share
    spread = _one_way(split, spread_bytes, split.replicas)
    hidden = split.overlap * split.backward_seconds
    if sharding == "zero2":  # reduces after every micro-batch
        return split.micro_batches * max(0.0, reduce - hidden) + spread
    if sharding == "zero1":  # the parameters come after the optimizer, when nothing computes
        return max(0.0, reduce - hidden) + spread
    return max(0.0, reduce + spread - hidden)


def _fully_sharded_seconds(split: _Split) -> float:
    """Return the seconds of full sharding: every micro-batch gathers the parameters twice and reduces the
    gradients once."""
    layout = split.layout
    group = min(split.replicas, _shard_group(split))
    gather = 2 * _one_way(split, layout.parameter_bytes, group)
    reduce = _one_way(split, split.gradient_bytes, group)
    exposed = split.micro_batches * max(0.0, gather + reduce - split.overlap * split.micro_seconds)
    copies = split.replicas // group
    if copies > 1:
        exposed += _between_copies(split, group, copies)
    return exposed


def _shard_group(split: _Split) -> int:
    if split.layout.sharding != "hybrid":
        return split.replicas
    return split.layout.hybrid_group or split.replicas_in_node


def _between_copies(split: _Split, group: int, copies: int) -> float:
    """Return the seconds to add up each shard's gradients over the copies, once a step."""
    share_of_a_node = min(1.0, split.replicas_in_node / group)
    nodes = copies if group >= split.replicas_in_node else split.replicas // split.replicas_in_node
    sent = _held_by_node(split) * share_of_a_node * split.gradient_bytes * _ring(nodes)
    return max(0.0, sent / split.bytes_per_second - split.overlap * split.backward_seconds)


def _one_way(split: _Split, bytes_each: float, ranks: int) -> float:
    """Return the seconds of a reduce-scatter or all-gather of all that a replica holds, among this many
    replicas."""
    in_node = min(ranks, split.replicas_in_node)
    nodes = math.ceil(ranks / in_node)
    seconds = 0.0
    if in_node > 1:
        own = parameter_count(split.model) / (split.layout.tensor * split.layout.pipeline) * bytes_each
        inside = split.cluster.intra_node_bytes_per_second * IN_NODE_EFFICIENCY
        seconds += (in_node - 1) / in_node * own / inside
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
