"""Fine-tuning of GPT-J as a workload of the estimate: rows as long as their texts, and LoRA's few weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slipway.containers.training.layout import at_most, steps_of_epoch
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.config_layout import layout_of
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.shapes import Layout
from slipway.jobs.estimate.work.spread import unmeasured_words
from slipway.jobs.estimate.work.work import adapted_share
from slipway.jobs.estimate.work.workloads import SST2_EXAMPLES, Workload

# A sentence to train on has 53 characters: the data set's card says 4,681,603 bytes of 67,349 rows, and 16
# of each are its label, number and place. That is about 12 tokens; " Sentiment:" and the word are four more.
SST2_TOKENS = 16
_SST2_ASSUMED = (
    f"a row of SST-2 has {SST2_TOKENS} tokens in the mean: 53 characters and what asks for their mood"
)
_OWN = ", and that model= is a published GPT-J 6B"
_SIZES: Mapping[str, str] = {"gptj-6b": "gpt-j-6b", "tiny": "gpt-j-tiny"}


def gptj_workload(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe fine-tuning, which takes as many steps as its epochs have, or fewer if asked for."""
    if config.model and config.size == "tiny":
        raise CannotEstimate(
            f"nobody has counted the model in '{config.model}'", hint="set size=gptj-6b for one like GPT-J 6B"
        )
    is_sst2 = config.task == "sst2"
    tokens = min(SST2_TOKENS, config.length) if is_sst2 else config.length
    model = MODELS[_SIZES[config.size]]
    steps, until = _end(config)
    return Workload(
        name=config.task,
        task=config.task,
        model_name=length_name(_SIZES[config.size], tokens),
        model=replace(
            model,
            sequence_length=tokens,
            head_share=1 / tokens if is_sst2 and config.loss_on == "label" else 1.0,
            trained_share=adapted_share(model, config.lora_rank) if config.lora_rank else 1.0,
        ),
        layout=_layout(config),
        steps=steps,
        until=until,
        assumed=(_SST2_ASSUMED if is_sst2 else "every row is full")
        + (_OWN if config.size == "gptj-6b" else "")
        + (f"; {unmeasured_words('adapters')}" if config.lora_rank else ""),
    )


def _end(config: Any) -> tuple[int | None, str]:
    """Return the steps and what they are; nobody knows the rows of a text before it is read."""
    if config.task != "sst2":
        return config.steps, f"{config.steps} steps" if config.steps else ""
    # Every estimate comes by here, and few are of this recipe, whose settings read addresses of text.
    from slipway.containers.recipes.gptj_finetune.config import KEEPS_REST

    epoch = steps_of_epoch(SST2_EXAMPLES, config.global_batch, keeps_rest=KEEPS_REST)
    whole = config.epochs * epoch
    if (steps := at_most(whole, config.steps)) < whole:
        return steps, f"{steps} steps"
    said = "an epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    return whole, f"{said} of SST-2, {SST2_EXAMPLES:,} sentences (GLUE)"


def _layout(config: Any) -> Layout:
    return Layout(
        **layout_of(config),
        sharding=_sharding(config),
        hybrid_group=config.sharded if _sharding(config) == "hybrid" else None,
        gradient_bytes=4,  # the native engine adds gradients up in 32 bit
    )


def _sharding(config: Any) -> str:
    if config.sharded == 1:
        return "none"
    if config.sharded_state == "all":
        return "hybrid"
    return "zero1" if config.pipeline > 1 else "zero2"
