"""Translates a recipe's settings into a workload of the estimate. A new recipe is a row of TRANSLATIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.containers.training.layout import at_most, held_bytes, sequences_of_tokens, steps_of_epoch
from slipway.jobs.code.own_recipes import OwnRecipe, find_own_recipe
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.model_files import is_model_file, model_from_file
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.shapes import Layout
from slipway.jobs.estimate.work.spread import unmeasured_words
from slipway.jobs.estimate.work.work import GRADIENT_BYTES, adapted_share, linear_adapters_share
from slipway.jobs.estimate.work.workloads import (
    BY_SIZES,
    LORA_RANK,
    SIZES,
    SST2_EXAMPLES,
    Workload,
    at_length,
    described,
    find_workload,
    names,
    with_settings,
    with_sizes,
)
from slipway.jobs.words.recipes import RECIPES, find_recipe, refuse_settings

# Fine-tuning of GPT-J: rows as long as their texts, and LoRA's few weights. A sentence has 53 characters: the
# data set's card says 4,681,603 bytes of 67,349 rows, and 16 bytes of each are its label, number and place.
# That is about 12 tokens; " Sentiment:" and its word are four more.
SST2_TOKENS = 16
_SST2_ASSUMED = (
    f"a row of SST-2 has {SST2_TOKENS} tokens in the mean: 53 characters and what asks for their mood"
)
_OWN = ", and that model= is a published GPT-J 6B"
_SIZES: Mapping[str, str] = {"gptj-6b": "gpt-j-6b", "tiny": "gpt-j-tiny"}


def gptj_workload(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe fine-tuning, which takes the steps of its epochs, or fewer if requested."""
    if config.model and config.size == "tiny":
        raise CannotEstimate(
            f"nobody has counted the model in '{config.model}'", hint="set size=gptj-6b for one like GPT-J 6B"
        )
    is_sst2 = config.task == "sst2"
    tokens = min(SST2_TOKENS, config.length) if is_sst2 else config.length
    model = MODELS[_SIZES[config.size]]
    steps, until = _end(config)
    sharding = _gptj_sharding(config)
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
        layout=Layout(
            **layout_of(config),
            sharding=sharding,
            hybrid_group=config.sharded if sharding == "hybrid" else None,
            gradient_bytes=4,  # the native engine adds gradients up in 32 bit
        ),
        steps=steps,
        until=until,
        assumed=(_SST2_ASSUMED if is_sst2 else "every row is full")
        + (_OWN if config.size == "gptj-6b" else "")
        + (f"; {unmeasured_words('adapters')}" if config.lora_rank else ""),
    )


def _end(config: Any) -> tuple[int | None, str]:
    """Return the steps and their source; the rows of a text are unknown until it is read."""
    if config.task != "sst2":
        return config.steps, f"{config.steps} steps" if config.steps else ""
    # Imported here: few estimates are of this recipe, whose settings read URLs of text.
    from slipway.containers.recipes.gptj_finetune.config import KEEPS_REST

    epoch = steps_of_epoch(SST2_EXAMPLES, config.global_batch, keeps_rest=KEEPS_REST)
    whole = config.epochs * epoch
    if (steps := at_most(whole, config.steps)) < whole:
        return steps, f"{steps} steps"
    length = "an epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    return whole, f"{length} of SST-2, {SST2_EXAMPLES:,} sentences (GLUE)"


def _gptj_sharding(config: Any) -> str:
    if config.sharded == 1:
        return "none"
    if config.sharded_state == "all":
        return "hybrid"
    return "zero1" if config.pipeline > 1 else "zero2"


# What a recipe's settings say of its layout; recipes with the same engines share these settings.


def layout_of(config: Any) -> dict[str, Any]:
    """Return fields of an estimate's layout, by their names there."""
    return {
        "micro_batch": config.micro_batch,
        "global_batch": config.global_batch,
        "tensor": config.tensor,
        "sequence_parallel": config.sequence_parallel == "yes",
        "pipeline": config.pipeline,
        "schedule": config.pipeline_schedule,
        "chunks": config.stages_per_rank,
        "checkpointing": "none" if config.checkpoint_activations == "none" else "full",
        **held_by(config.engine_name, config.precision),
    }


def held_by(engine: str, precision: str) -> dict[str, Any]:
    """Return what the engine keeps in this precision, as fields of a layout."""
    held = held_bytes(engine, precision)
    return {
        "weight_bytes": held.weights,
        "gradient_sum_bytes": held.gradients - GRADIENT_BYTES,
        "optimizer_bytes": held.optimizer,
        "value_bytes": held.values,
    }


def workload_of(name: str, settings: Mapping[str, str]) -> Workload:
    """Return the workload of a recipe, of a known model, of a config.json, or of sizes alone."""
    if name in RECIPES:
        return recipe_workload(name, settings)
    if recipe := find_own_recipe(name):
        return _own_workload(recipe, settings)
    sizes = {key: text for key, text in settings.items() if key in SIZES or key == LORA_RANK}
    rest = {key: text for key, text in settings.items() if key not in sizes}
    if name in BY_SIZES:
        return with_settings(described(name, sizes), rest)
    return with_sizes(with_settings(_named(name), rest), sizes)


def names_a_job(name: str) -> bool:
    """Return True if workload_of would accept this name, without reading a file."""
    is_known = name in RECIPES or name in names() or name in BY_SIZES or is_model_file(name)
    return is_known or find_own_recipe(name) is not None


def _named(name: str) -> Workload:
    if is_model_file(name):
        return model_from_file(name)
    try:
        return find_workload(name)
    except CannotEstimate as error:
        from difflib import get_close_matches

        # A file of this name, or a recipe with a similar name: the estimate itself knows only models.
        close = [f"./{name}"] if Path(name).exists() else get_close_matches(name, TRANSLATIONS, n=1)
        if not close:
            raise
        raise CannotEstimate(error.message, hint=f"did you mean {close[0]}?") from None


def recipe_workload(name: str, settings: Mapping[str, str]) -> Workload:
    """Describe the workload that a run with exactly these settings trains."""
    recipe = find_recipe(name)
    if name not in TRANSLATIONS:
        raise CannotEstimate(
            f"recipe '{name}' trains no model that an estimate knows",
            hint=f"these do: {', '.join(TRANSLATIONS)}; or name a model, such as {names()[0]}",
        )
    refuse_settings(recipe, settings)
    config = recipe.config.decode_arguments([f"{key}={value}" for key, value in settings.items()])
    return replace(TRANSLATIONS[name](config, settings), name=name, devices=recipe.accelerators)


def _own_workload(recipe: OwnRecipe, settings: Mapping[str, str]) -> Workload:
    """Describe what a user's own recipe says that it trains: a model like a known one, and its layout."""
    config, describe = recipe.read(settings), getattr(recipe.code, "workload", None)
    told = describe(config) if callable(describe) else None
    if not (isinstance(told, Mapping) and isinstance(told.get("like"), str)):
        raise CannotEstimate(
            f"your recipe '{recipe.name}' does not say what it trains",
            hint='write def workload(config): return {"like": "bert-large"}: docs/projects.md',
        )
    rest = {str(name): str(value) for name, value in told.items() if name != "like"}
    return replace(with_settings(find_workload(told["like"]), rest), name=recipe.name)


def _bert(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe pre-training, which takes the requested steps, or those that its sequences need."""
    if model_file := config.config or config.start_from_model:
        raise CannotEstimate(
            f"nobody has counted the model in '{model_file}'", hint="estimate a size near it"
        )
    model_name = f"bert-{config.size}" + ("-512" if config.phase == 2 else "")
    model = MODELS.get(model_name) or replace(MODELS[f"bert-{config.size}"], sequence_length=512)
    length = f"{config.sequences:,} sequences" if config.steps is None else f"{config.steps:,} steps"
    return Workload(
        name=model_name,
        model_name=model_name,
        model=model,
        layout=Layout(
            **layout_of(config),
            accumulation_steps=config.accumulation_steps,
            sharding="hybrid" if config.sharded > 1 else f"zero{config.zero}" if config.zero else "none",
            hybrid_group=config.sharded if config.sharded > 1 else None,
            gradient_bytes=4,  # all engines add gradients up in 32 bit
        ),
        sequences=config.sequences,
        steps=config.steps,
        until=f"{length} of phase {config.phase}",
    )


def _glue(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe fine-tuning, with one worker on each node: its processes share the batch."""
    model_name = config.model.rstrip("/").rpartition("/")[2].replace("distilbert-base-uncased", "distilbert")
    if model_name not in _CLASSIFIERS:
        raise CannotEstimate(
            f"nobody has counted the model in '{config.model}'",
            hint=f"name its folder after one of {', '.join(_CLASSIFIERS)}",
        )
    rows = TRAINING_ROWS.get(config.task)
    return Workload(
        name=config.task,
        task=config.task,
        model_name=length_name(model_name, config.max_length),
        model=replace(MODELS[model_name], sequence_length=config.max_length),
        layout=Layout(
            micro_batch=config.batch_per_node,
            global_batch=config.global_batch,
            gradient_bytes=4,
            # The device chooses fp32, which is the fastest on these nodes.
            **held_by("plain", "bf16" if config.precision == "bf16" else "fp32"),
        ),
        deals_batch=True,
        sequences=None if rows is None else config.epochs * rows,
        epochs=config.epochs,
        steps=config.steps,
        until=f"{config.steps} steps" if config.steps else f"{config.epochs} epochs of {config.task} (GLUE)",
        assumed=f"every row is {config.max_length} tokens long; batches of like length are faster",
    )


_DECODERS: Mapping[str, str] = {"neox-20b": "gpt-neox-20b", "pythia-6.9b": "pythia-6.9b"}


def _neox(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe pre-training, which takes as many steps as its tokens need."""
    if model_file := config.config or config.start_from_model:
        raise CannotEstimate(
            f"nobody has counted the model in '{model_file}'", hint="estimate a size near it"
        )
    if config.size not in _DECODERS:
        raise CannotEstimate(
            f"nobody has counted the model of size={config.size}", hint=f"set size={' or '.join(_DECODERS)}"
        )
    known = find_workload(_DECODERS[config.size])
    layout = replace(known.layout, **layout_of(config))
    until = f"{config.tokens:,} tokens"
    workload = replace(
        known, layout=layout, sequences=sequences_of_tokens(config.tokens, config.length), until=until
    )
    return workload if config.length == workload.model.sequence_length else at_length(workload, config.length)


# QLoRA holds 4 bits for a weight and 0.127 for its scales (Dettmers et al. 2023).
_QUANTIZED_BYTES = (4 + 0.127) / 8


def _sft(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe TRL's training of a model that is known by name, or by a config.json on this machine."""
    known = at_length(_model_of(config.model), config.length)
    is_16_bit, is_adapted = config.precision != "fp32", config.lora_rank > 0
    frozen = _QUANTIZED_BYTES if config.quantize == "nf4" else 2 if is_16_bit else 4
    share = linear_adapters_share(known.model, config.lora_rank) if is_adapted else 1.0
    is_sharded = config.fsdp == "yes"
    fused = config.compile_layers == "yes" or not known.model.gated
    return Workload(
        name="sft",
        model_name=known.model_name,
        model=replace(known.model, trained_share=share),
        layout=Layout(
            micro_batch=config.micro_batch,
            global_batch=config.global_batch,
            fused=fused,
            sharding="zero3" if is_sharded else "none",
            checkpointing="none" if config.checkpoint_activations == "none" else "full",
            # Trained weights are of 32 bit and computed with in 16; FSDP2 sends the 16-bit ones.
            gradient_bytes=2 if is_sharded and is_16_bit else 4,
            gradient_sum_bytes=4 - GRADIENT_BYTES,
            parameter_bytes=2 if is_16_bit else 4,
            weight_bytes=frozen if is_adapted else 4,
            optimizer_bytes=12 if is_adapted else 8,  # adapters are separate from the weights
            value_bytes=2 if is_16_bit else 4,
        ),
        steps=config.steps,
        until=f"{config.steps} steps" if config.steps else "",
        assumed=f"every row is {config.length} tokens long"
        + ("; DPO's two answers and its reference model are not counted" if config.method == "dpo" else "")
        + (f"; {unmeasured_words('adapters')}" if is_adapted else "")
        + ("" if fused else "; norms and gates run kernel by kernel without --set compile_layers=yes"),
    )


def _model_of(place: str) -> Workload:
    """Return the model of the path's last word, or of the config.json there."""
    name = place.rstrip("/").rpartition("/")[2]
    if name in MODELS:
        return find_workload(name)
    for folder in (place, name):
        if (Path(folder) / "config.json").is_file():
            return model_from_file(folder)
    raise CannotEstimate(
        f"nobody has counted the model in '{place}'",
        hint=f"put its config.json into {name}/ of this folder, or name one of {', '.join(MODELS)}",
    )


# Rows of GLUE's training sets (Wang et al. 2018, and the data sets themselves).
TRAINING_ROWS: Mapping[str, int] = {
    "cola": 8551,
    "mnli": 392_702,
    "mrpc": 3668,
    "qnli": 104_743,
    "qqp": 363_846,
    "rte": 2490,
    "sst2": SST2_EXAMPLES,
    "stsb": 5749,
    "wnli": 635,
}
_CLASSIFIERS = ("bert-base-cased", "bert-base-uncased", "distilbert")
TRANSLATIONS: Mapping[str, Callable[[Any, Mapping[str, str]], Workload]] = {
    "bert_pretrain": _bert,
    "glue_finetune": _glue,
    "gpt_neox": _neox,
    "gptj_finetune": gptj_workload,
    "sft": _sft,
}
