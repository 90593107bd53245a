"""The work of a transformer: its parameters, and what one sequence costs to train on.

Multiplications of matrices only, a multiplication and its addition counted as two operations. All else that a
layer does is in the calibrated utilisation.
"""

from __future__ import annotations

from slipway.jobs.estimate.work.shapes import Layout, Model


def parameter_count(model: Model) -> float:
    """Return the given count, else count: one vocabulary matrix, norms and biases of each layer, no
    positions."""
    if model.parameters is not None:
        return float(model.parameters)
    norms_and_biases = 13 * model.hidden_size
    layer = _attention_weights(model) + _block_weights(model) + norms_and_biases
    return float(model.layers * layer + model.vocabulary * model.hidden_size)


_ADAPTED = 2  # matrices of a layer that LoRA adapts, queries and values, each by one down and one up


def adapted_share(model: Model, rank: int) -> float:
    """Return the share of the parameters that LoRA's adapters are."""
    adapters = model.layers * _ADAPTED * 2 * model.hidden_size * rank
    return min(1.0, adapters / parameter_count(model))


def backward_share(model: Model) -> float:
    """Return what a backward pass costs in forward passes: gradients of inputs, and of weights that train."""
    return 1 + model.trained_share


def forward_flops(model: Model) -> float:
    """Return the forward FLOPs of one sequence."""
    return _layer_flops(model) * model.layers + _head_flops(model)


def training_flops(model: Model) -> float:
    """Return the FLOPs of one sequence, forward and backward, without what is recomputed to save memory."""
    return forward_flops(model) * (1 + backward_share(model))


def recomputed_flops(model: Model, layout: Layout) -> float:
    """Return the FLOPs of one sequence that checkpointing computes a second time."""
    if layout.checkpointing == "full":
        return _layer_flops(model) * model.layers
    if layout.checkpointing == "selective":  # the attention matrices only (Korthikanti et al. 2022)
        return _score_flops(model) * model.layers
    return 0.0


def executed_flops(model: Model, layout: Layout) -> float:
    """Return the FLOPs of one sequence, with what is computed a second time."""
    return training_flops(model) + recomputed_flops(model, layout)


def score_share(model: Model) -> float:
    """Return the share of the FLOPs that are of attention's scores."""
    scores = _score_flops(model) * model.layers
    return scores / forward_flops(model)


def _layer_flops(model: Model) -> float:
    weights = _attention_weights(model) + _block_weights(model)
    return 2.0 * weights * model.sequence_length + _score_flops(model)


def _score_flops(model: Model) -> float:
    """Count queries by keys, and the result by values. A fused kernel skips what a causal mask hides."""
    computed = 0.5 if model.causal else 1.0
    return 4.0 * model.sequence_length**2 * model.hidden_size * computed


def _head_flops(model: Model) -> float:
    positions = model.sequence_length * model.head_share
    return 2.0 * positions * model.hidden_size * model.vocabulary


def _attention_weights(model: Model) -> float:
    shared = (model.key_value_heads or model.heads) / model.heads
    return model.hidden_size**2 * (2 + 2 * shared)


def _block_weights(model: Model) -> float:
    return (3.0 if model.gated else 2.0) * model.hidden_size * model.feed_forward
