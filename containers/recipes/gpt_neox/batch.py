"""The global batch, shared by so many readers: ranks that train on rows of their own."""

from __future__ import annotations

from slipway.containers.recipes.gpt_neox.config import GptNeoxConfig
from slipway.containers.training.batch import BatchPlan, IndivisibleBatch


def plan_batch(config: GptNeoxConfig, readers: int) -> BatchPlan:
    each = config.micro_batch * readers
    if config.global_batch % each:
        below = config.global_batch // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        raise IndivisibleBatch(
            f"a global batch of {config.global_batch} is not a multiple of {each} "
            f"(micro_batch {config.micro_batch} × {readers} copies of the model)",
            hint=f"set global_batch={nearest}, or another micro_batch",
        )
    return BatchPlan(
        micro_batch=config.micro_batch, accumulation_steps=config.global_batch // each, readers=readers
    )
