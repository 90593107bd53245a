"""What the settings of a recipe say of its layout: recipes that share the engines have the same ones."""

from __future__ import annotations

from typing import Any

from slipway.containers.training.layout import held_bytes
from slipway.jobs.estimate.work.memory import GRADIENT_BYTES


def layout_of(config: Any) -> dict[str, Any]:
    """Return fields of an estimate's layout, by their names there."""
    return {
        "micro_batch": config.micro_batch,
        "global_batch": config.global_batch,
        "tensor": config.tensor,
        "pipeline": config.pipeline,
        "schedule": config.pipeline_schedule,
        "chunks": config.stages_per_rank,
        "checkpointing": "none" if config.checkpoint_activations == "none" else "full",
        **held_by(config.engine_name, config.precision),
    }


def held_by(engine: str, precision: str) -> dict[str, Any]:
    """Return what the engine holds in this precision, as the same fields."""
    held = held_bytes(engine, precision)
    return {
        "weight_bytes": held.weights,
        "gradient_sum_bytes": held.gradients - GRADIENT_BYTES,
        "optimizer_bytes": held.optimizer,
        "value_bytes": held.values,
    }
