"""A recipe with its settings as a workload of the estimate. A further recipe is one row of TRANSLATIONS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jobs.estimate.errors import CannotEstimate
from jobs.estimate.models import MODELS
from jobs.estimate.shapes import Layout
from jobs.estimate.workloads import WORKLOADS, Workload, find_workload, names, with_settings
from jobs.recipes import RECIPES, find_recipe, refuse_settings

# Whose model nobody names: what they are estimated as where --set says nothing.
_USUAL: Mapping[str, Mapping[str, str]] = {"bert_pretrain": {"size": "large"}}


def workload_of(name: str, settings: Mapping[str, str]) -> Workload:
    """`name` is a recipe, or what jobs/estimate/workloads.py knows."""
    if name in RECIPES:
        return recipe_workload(name, {**_USUAL.get(name, {}), **settings})
    try:
        return with_settings(find_workload(name), settings)
    except CannotEstimate as error:
        raise _with_recipes(name, error) from None


def recipe_workload(name: str, settings: Mapping[str, str]) -> Workload:
    """As a run with these settings, and no others, trains."""
    recipe = find_recipe(name)
    if name not in TRANSLATIONS:
        raise CannotEstimate(
            f"recipe '{name}' trains no model that an estimate knows",
            hint=f"these do: {', '.join(TRANSLATIONS)}; or name a model: {', '.join(names())}",
        )
    refuse_settings(recipe, settings)
    config = recipe.config.decode_arguments([f"{key}={value}" for key, value in settings.items()])
    return replace(TRANSLATIONS[name](config, settings), name=name, devices=recipe.accelerators)


def _bert(config: Any, settings: Mapping[str, str]) -> Workload:
    """To the target that was published for its size, unless the steps are said."""
    model_name = f"bert-{config.size}" + ("-512" if config.phase == 2 else "")
    short = f"bert-{config.size}"
    model = MODELS.get(model_name) or replace(MODELS[short], sequence_length=512)
    target = WORKLOADS.get(model_name)
    is_counted = "steps" in settings or target is None
    return Workload(
        name=model_name,
        model_name=model_name,
        model=model,
        layout=Layout(
            micro_batch=config.micro_batch,
            accumulation_steps=config.accumulation_steps,
            global_batch=config.global_batch,
            sharding="zero1" if config.zero else "none",
            gradient_bytes=4,  # both engines add gradients up in 32 bit
        ),
        steps=config.steps if is_counted else None,
        sequences=None if is_counted or target is None else target.sequences,
        until=f"{config.steps} steps" if is_counted or target is None else target.until,
    )


TRANSLATIONS: Mapping[str, Callable[[Any, Mapping[str, str]], Workload]] = {"bert_pretrain": _bert}


def _with_recipes(name: str, error: CannotEstimate) -> CannotEstimate:
    """A name that is near a recipe's is told so: the estimate itself knows models only."""
    from difflib import get_close_matches

    close = get_close_matches(name, TRANSLATIONS, n=1)
    return CannotEstimate(error.message, hint=f"did you mean {close[0]}?") if close else error
