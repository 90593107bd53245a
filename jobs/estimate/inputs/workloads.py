"""A recipe with its settings as a workload of the estimate. A further recipe is one row of TRANSLATIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.containers.training.layout import sequences_of_tokens
from slipway.jobs.code.own_recipes import OwnRecipe, find_own_recipe
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.inputs.config_layout import held_by, layout_of
from slipway.jobs.estimate.inputs.gptj import gptj_workload
from slipway.jobs.estimate.inputs.model_files import is_model_file, model_from_file
from slipway.jobs.estimate.work.given_sizes import BY_SIZES, described, is_of_sizes, with_sizes
from slipway.jobs.estimate.work.models import MODELS, length_name
from slipway.jobs.estimate.work.shapes import Layout
from slipway.jobs.estimate.work.workloads import (
    SST2_EXAMPLES,
    Workload,
    at_length,
    find_workload,
    names,
    with_settings,
)
from slipway.jobs.words.recipes import RECIPES, find_recipe, refuse_settings


def workload_of(name: str, settings: Mapping[str, str]) -> Workload:
    """Return the workload of a recipe, of a model that we know, of a config.json, or of sizes alone."""
    if name in RECIPES:
        return recipe_workload(name, settings)
    if own := find_own_recipe(name):
        return _own_workload(own, settings)
    sizes = {key: text for key, text in settings.items() if is_of_sizes(key)}
    rest = {key: text for key, text in settings.items() if key not in sizes}
    if name in BY_SIZES:
        return with_settings(described(name, sizes), rest)
    return with_sizes(with_settings(_named(name), rest), sizes)


def names_a_job(name: str) -> bool:
    """Tell whether workload_of would take this name, without reading a file."""
    is_known = name in RECIPES or name in names() or name in BY_SIZES or is_model_file(name)
    return is_known or find_own_recipe(name) is not None


def _named(name: str) -> Workload:
    if is_model_file(name):
        return model_from_file(name)
    try:
        return find_workload(name)
    except CannotEstimate as error:
        raise _with_recipes(name, error) from None


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


def _own_workload(own: OwnRecipe, settings: Mapping[str, str]) -> Workload:
    """Describe what a user's own recipe says that it trains: a model like a known one, and its layout."""
    config, describe = own.read(settings), getattr(own.code, "workload", None)
    told = describe(config) if callable(describe) else None
    if not (isinstance(told, Mapping) and isinstance(told.get("like"), str)):
        raise CannotEstimate(
            f"your recipe '{own.name}' does not say what it trains",
            hint='write def workload(config): return {"like": "bert-large"}: docs/projects.md',
        )
    rest = {str(name): str(value) for name, value in told.items() if name != "like"}
    return replace(with_settings(find_workload(told["like"]), rest), name=own.name)


def _bert(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe pre-training, which takes as many steps as asked for or as its sequences need."""
    if own := config.config or config.start_from_model:
        raise CannotEstimate(f"nobody has counted the model in '{own}'", hint="estimate a size near it")
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
            sharding=_sharding(config),
            hybrid_group=config.sharded if config.sharded > 1 else None,
            gradient_bytes=4,  # all engines add gradients up in 32 bit
        ),
        sequences=config.sequences,
        steps=config.steps,
        until=f"{length} of phase {config.phase}",
    )


def _sharding(config: Any) -> str:
    if config.sharded > 1:
        return "hybrid"
    return f"zero{config.zero}" if config.zero else "none"


def _glue(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe fine-tuning, with one worker per node: its processes share the batch."""
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
            # Left to the device, it is fp32: what these nodes compute fastest with.
            **held_by("plain", "bf16" if config.precision == "bf16" else "fp32"),
        ),
        sequences=None if rows is None else config.epochs * rows,
        epochs=config.epochs,
        steps=config.steps,
        until=f"{config.steps} steps" if config.steps else f"{config.epochs} epochs of {config.task} (GLUE)",
        assumed=f"every row is {config.max_length} tokens long; batches of like length are faster",
    )


def _neox(config: Any, _settings: Mapping[str, str]) -> Workload:
    """Describe pre-training, which takes as many steps as its tokens need."""
    if own := config.config or config.start_from_model:
        raise CannotEstimate(f"nobody has counted the model in '{own}'", hint="estimate a size near it")
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


_DECODERS: Mapping[str, str] = {"neox-20b": "gpt-neox-20b", "pythia-6.9b": "pythia-6.9b"}


# Rows of the training sets as GLUE publishes them (Wang et al. 2018, and the data sets themselves).
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
}


def _with_recipes(name: str, error: CannotEstimate) -> CannotEstimate:
    """Suggest a file of this name, or a recipe of a similar one: the estimate itself knows models only."""
    from difflib import get_close_matches

    close = [f"./{name}"] if Path(name).exists() else get_close_matches(name, TRANSLATIONS, n=1)
    return CannotEstimate(error.message, hint=f"did you mean {close[0]}?") if close else error
