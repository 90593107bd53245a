"""What the settings of a recipe say of its layout: recipes that share the engines have the same ones."""

from __future__ import annotations

from typing import Any


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
    }
