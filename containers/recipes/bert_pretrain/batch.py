"""The batch that the settings ask for, shared by so many readers: ranks that train on rows of their own."""

from __future__ import annotations

from dataclasses import replace

from slipway.containers.recipes.bert_pretrain.config import BertConfig
from slipway.containers.runtime.checkpoint.resume import saved_batch
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import BatchPlan, share_batch
from slipway.containers.training.start import open_storage


def keep_saved_batch(config: BertConfig, contract: LaunchContract, readers: int) -> BertConfig:
    """Return the config with the global batch of the checkpoints that it continues, on any number of ranks.

    With as many micro-batches on fewer or more ranks, the batch would be another one, and so the training.
    """
    if contract.checkpoints is None or config.global_batch is not None or config.resume == "never":
        return config
    batch = saved_batch(open_storage(contract.checkpoints))
    each = config.micro_batch * readers
    if batch is None or batch == plan_batch(config, readers).global_batch:
        return config
    if batch % each:
        raise Refusal(
            f"the checkpoints in {contract.checkpoints} have a global batch of {batch}, which is no "
            f"multiple of {each} (micro_batch {config.micro_batch} × {readers} ranks)",
            hint="resume on a number of nodes that divides it, or set a smaller micro_batch",
        )
    return replace(config, global_batch=batch, accumulation_steps=None)


def plan_batch(config: BertConfig, readers: int) -> BatchPlan:
    if config.global_batch is not None:
        return share_batch(config.global_batch, config.micro_batch, readers, called="ranks")
    assert config.accumulation_steps is not None, "the config has one of both"
    return BatchPlan(
        micro_batch=config.micro_batch, accumulation_steps=config.accumulation_steps, readers=readers
    )
