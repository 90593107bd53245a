"""`slipway recipes`: lists what can be submitted, and the settings of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from slipway.jobs.output import Column, json_option, print_table

if TYPE_CHECKING:
    from slipway.containers.training.settings import ValueKind
    from slipway.jobs.code.own_recipes import OwnRecipe

RECIPES = (
    Column(name="name"),
    Column(name="summary", title="what it does", absent=""),
    Column(name="trains_on", title="trains on", absent="any"),
    Column(name="from", absent="Slipway"),
)
SETTINGS = (
    Column(name="setting"),
    Column(name="allowed"),
    Column(name="default", absent="-"),
)


@click.command()
@click.argument("recipe", required=False)
@json_option
def command(recipe: str | None, as_json: bool) -> None:
    """List the recipes that can be submitted: Slipway's, and those of your project's folder recipes/.

    With RECIPE, list its settings. A default that depends on other settings is not shown.

    \b
    slipway recipes
    slipway recipes glue_finetune
    """
    if recipe is None:
        print_table("recipes", RECIPES, [*_ours(), *_own()], as_json=as_json)
    else:
        print_table(f"settings of {recipe}", SETTINGS, [*_settings(recipe)], as_json=as_json)


def _ours() -> Iterator[dict[str, object]]:
    from slipway.jobs.words import recipes

    for name in recipes.RECIPES:
        known = recipes.find_recipe(name)
        yield {"name": name, "summary": known.summary, "trains_on": ", ".join(known.accelerators)}


def _own() -> Iterator[dict[str, object]]:
    """List the project's own; one that is broken says why in its row, and hides no other."""
    from slipway.jobs.code.own_recipes import FOLDER, BrokenRecipe, find_own_recipe, own_names

    for name in own_names():
        row: dict[str, object] = {"name": name, "from": f"{FOLDER}/{name}.py"}
        try:
            own = find_own_recipe(name)
        except BrokenRecipe as broken:
            yield {**row, "summary": f"error: {broken.message}"}
        else:
            yield {**row, "summary": own.summary if own else ""}


def _settings(name: str) -> Iterator[dict[str, object]]:
    from slipway.jobs.code.own_recipes import find_own_recipe
    from slipway.jobs.words.recipes import find_recipe

    if own := find_own_recipe(name):
        yield from _rows(own.kinds(), _own_defaults(own))
        return
    module = find_recipe(name).config_module
    yield from _rows(module.SETTINGS, getattr(module, "DEFAULTS", {}))


def _own_defaults(own: OwnRecipe) -> dict[str, object]:
    from dataclasses import MISSING, fields

    return {field.name: field.default for field in fields(own.code.Config) if field.default is not MISSING}


def _rows(kinds: Mapping[str, ValueKind], defaults: Mapping[str, object]) -> Iterator[dict[str, object]]:
    for name, kind in kinds.items():
        yield {"setting": name, "allowed": kind.wanted, "default": defaults.get(name)}
