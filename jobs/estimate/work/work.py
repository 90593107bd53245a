"""Counts the work of a transformer: its parameters, what one sequence costs to train on, and its memory.

Only multiplications of matrices count, as two operations each with their addition. Everything else that a
layer does is in the calibrated utilisation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from slipway.jobs.estimate.work.shapes import Hardware, Layout, Model, accumulation, replicas


def parameter_count(model: Model) -> float:
    """Return the given count, or that of one vocabulary matrix and layers with norms, without positions."""
    if model.parameters is not None:
        return float(model.parameters)
    norms_and_biases = 13 * model.hidden_size
    layer = _layer_weights(model) + norms_and_biases
    return float(model.layers * layer + model.vocabulary * model.hidden_size)


_ADAPTED = 2  # matrices of a layer that LoRA adapts, queries and values, each by one down and one up


def adapted_share(model: Model, rank: int) -> float:
    """Return the share of the parameters that are LoRA's adapters."""
    adapters = model.layers * _ADAPTED * 2 * model.hidden_size * rank
    return min(1.0, adapters / parameter_count(model))


def linear_adapters_share(model: Model, rank: int) -> float:
    """Return the share of adapters at every matrix of the layers, PEFT's "all-linear"."""
    hidden = model.hidden_size
    key_value = hidden * (model.key_value_heads or model.heads) // model.heads
    block = (3 if model.gated else 2) * (hidden + model.feed_forward)
    attention = 2 * (hidden + hidden) + 2 * (hidden + key_value)
    return min(1.0, model.layers * rank * (attention + block) / parameter_count(model))


def backward_share(model: Model) -> float:
    """Return a backward pass's cost in forward passes: gradients of inputs, and of weights that train."""
    return 1 + model.trained_share


def forward_flops(model: Model) -> float:
    """Return the forward FLOPs of one sequence."""
    positions = model.sequence_length * model.head_share  # that reach the head
    head = 2.0 * positions * model.hidden_size * model.vocabulary
    return _layer_flops(model) * model.layers + head


def training_flops(model: Model) -> float:
    """Return the FLOPs of one sequence, forward and backward, without recomputation to save memory."""
    return forward_flops(model) * (1 + backward_share(model))


def recomputed_flops(model: Model, layout: Layout) -> float:
    """Return the FLOPs of one sequence that checkpointing computes a second time."""
    if layout.checkpointing == "full":
        return _layer_flops(model) * model.layers
    if layout.checkpointing == "selective":  # the attention matrices only (Korthikanti et al. 2022)
        return _score_flops(model) * model.layers
    return 0.0


def executed_flops(model: Model, layout: Layout) -> float:
    """Return the FLOPs of one sequence, with recomputation."""
    return training_flops(model) + recomputed_flops(model, layout)


def score_share(model: Model) -> float:
    """Return attention's scores' share of the FLOPs."""
    scores = _score_flops(model) * model.layers
    return scores / forward_flops(model)


def _layer_flops(model: Model) -> float:
    return 2.0 * _layer_weights(model) * model.sequence_length + _score_flops(model)


def _score_flops(model: Model) -> float:
    """Count queries by keys, and the result by values. A fused kernel skips what a causal mask hides."""
    computed = 0.5 if model.causal else 1.0
    return 4.0 * model.sequence_length**2 * model.hidden_size * computed


def _layer_weights(model: Model) -> float:
    shared = (model.key_value_heads or model.heads) / model.heads
    attention = model.hidden_size**2 * (2 + 2 * shared)
    return attention + (3.0 if model.gated else 2.0) * model.hidden_size * model.feed_forward


# What one device has to hold, part by part, and whether that fits. Sixteen bytes for each parameter: two of
# weights, two of gradients, twelve of optimizer state in 32 bit. A layout says what an engine holds otherwise
# (containers/training/layout.py), such as 32-bit sums of gradients. Activations are counted as in Korthikanti
# et al. 2022; the square of the sequence only where attention is not fused. Another way to save memory is one
# factor here and one row of CHANGES in fitting.py.
GRADIENT_BYTES = 2.0
USABLE = 0.92  # of a device's memory: the rest is the runtime's, and what the allocator cannot join up

_SHARDED = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hybrid": 3}
_LOSS_BYTES = 4.0  # logits are in 32 bit for the loss, in a copy if the model has 16
_COUNTED_BYTES = 2.0  # of a value in the counts of Korthikanti et al.


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Count the bytes on the device that holds most."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    gathered: float  # layers whose weights are gathered while they compute

    @property
    def total(self) -> float:
        return sum(float(getattr(self, field.name)) for field in fields(self))

    @property
    def largest(self) -> str:
        return max((field.name for field in fields(self)), key=lambda name: float(getattr(self, name)))


def memory(model: Model, cluster: Hardware, layout: Layout) -> Memory:
    stage = _SHARDED[layout.sharding]
    ranks = replicas(model, cluster, layout)
    if layout.sharding == "hybrid":
        in_node = max(1, cluster.devices_per_node // layout.tensor)
        ranks = min(ranks, layout.hybrid_group or in_node)
    own = parameter_count(model) / (layout.tensor * layout.pipeline)
    trained = own * model.trained_share
    return Memory(
        weights=own * layout.weight_bytes / (ranks if stage >= 3 else 1),
        gradients=trained * (GRADIENT_BYTES + layout.gradient_sum_bytes) / (ranks if stage >= 2 else 1),
        optimizer=0.0 if layout.offload else trained * layout.optimizer_bytes / (ranks if stage >= 1 else 1),
        activations=_activations(model, cluster, layout),
        gathered=2 * own * layout.pipeline / model.layers * layout.weight_bytes if stage >= 3 else 0.0,
    )


def usable_bytes(cluster: Hardware) -> float:
    return cluster.memory_bytes * USABLE


def _activations(model: Model, cluster: Hardware, layout: Layout) -> float:
    """Count the first stage's activations, the most of all stages, and the logits if it is also the last."""
    tokens = layout.micro_batch * model.sequence_length
    own = tokens * model.hidden_size * layout.value_bytes / _COUNTED_BYTES
    layers = model.layers / layout.pipeline
    # Bytes per value of a layer's input: ten are on every device of a tensor group unless sequence
    # parallelism shares them, plus a share of the rest.
    shares = layout.tensor if layout.sequence_parallel else 1
    width = model.feed_forward / model.hidden_size * (1.5 if model.gated else 1.0)
    inside = 10.0 / shares + (8.0 + 4.0 * width) / layout.tensor
    squares = 0.0
    if not cluster.has_fused_attention:  # scores before and after dropout, and its mask, for each pair
        squares = 5.0 * model.heads * model.sequence_length / model.hidden_size / layout.tensor
    input_alone = 2.0 / shares
    each = {"none": inside + squares, "selective": inside, "full": input_alone}[layout.checkpointing]
    kept = layers * own * each * _micro_batches_kept(model, cluster, layout)
    # The layer that is being computed again.
    kept += own * {"none": 0.0, "selective": squares, "full": inside + squares}[layout.checkpointing]
    of_a_logit = _LOSS_BYTES + (layout.value_bytes if layout.value_bytes < _LOSS_BYTES else 0.0)
    logits = tokens * model.head_share * model.vocabulary * of_a_logit / layout.tensor
    return kept + (logits if layout.pipeline == 1 else 0.0)


def _micro_batches_kept(model: Model, cluster: Hardware, layout: Layout) -> float:
    if layout.pipeline == 1:
        return 1.0
    micro_batches = accumulation(model, cluster, layout)
    if layout.schedule == "gpipe":
        return micro_batches
    more = 1.0
    if layout.schedule == "interleaved":
        more += (layout.pipeline - 1) / (layout.pipeline * layout.chunks)
    return min(micro_batches, layout.pipeline) * more
