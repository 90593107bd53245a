"""The batch that the settings ask for, on so many ranks."""

from __future__ import annotations

from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.training.batch import BatchPlan, IndivisibleBatch


def plan_batch(config: BertConfig, world: int) -> BatchPlan:
    each = config.micro_batch * world
    if config.global_batch is None:
        assert config.accumulation_steps is not None, "the config has one of both"
        accumulation_steps = config.accumulation_steps
    elif config.global_batch % each:
        below = config.global_batch // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        raise IndivisibleBatch(
            f"a global batch of {config.global_batch} is not a multiple of {each} "
            f"(micro_batch {config.micro_batch} × {world} ranks)",
            hint=f"set global_batch={nearest}, or another micro_batch",
        )
    else:
        accumulation_steps = config.global_batch // each
    return BatchPlan(micro_batch=config.micro_batch, accumulation_steps=accumulation_steps, world=world)
