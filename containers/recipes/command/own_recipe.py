"""Run one rank of a user's own recipe in its folder: python -m …own_recipe recipes.NAME --set key=value.

The recipe's module has a dataclass `Config` and a function `train(config)` that returns None or an exit code.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import (
    InvalidSettings,
    ValueKind,
    read_values,
    split_arguments,
)

# Settings of a user's own recipe are read by the types of its dataclass. Standard library only, for laptops.
# To allow another type of setting, add one row to _SIMPLE.
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,18}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_WORDS = {"yes": True, "true": True, "no": False, "false": False}


class BadRecipe(Refusal):
    """The recipe itself is wrong, not its settings."""


def _number(text: str) -> float | None:
    found = float(text) if _DECIMAL.fullmatch(text) else math.nan
    return found if math.isfinite(found) else None


_SIMPLE: Mapping[type, ValueKind] = {
    int: ValueKind("a whole number", lambda text: int(text) if _WHOLE.fullmatch(text) else None),
    float: ValueKind("a number, such as 0.003 or 3e-3", _number),
    str: ValueKind("a text", lambda text: None if "\0" in text else text),
    bool: ValueKind("yes or no", lambda text: _WORDS.get(text.lower())),
}
_ALLOWED = f"{', '.join(kind.__name__ for kind in _SIMPLE)}, Literal[…], or one of them | None"


def kinds_of(config: object) -> dict[str, ValueKind]:
    """Return the settings that a dataclass declares; refuse those that could never be set."""
    if not (isinstance(config, type) and is_dataclass(config)):
        raise BadRecipe("Config is not a dataclass", hint="write @dataclass(frozen=True) above class Config")
    try:
        hints = get_type_hints(config)
    except Exception as error:  # noqa: BLE001 - a user's annotation may raise anything
        raise BadRecipe(f"a type of Config cannot be read: {error}") from None
    # Class attributes without a type look like settings, but a dataclass ignores them.
    for name, value in vars(config).items():
        is_other = callable(value) or isinstance(value, (classmethod, staticmethod, property))
        if not name.startswith("_") and name not in hints and not is_other:
            raise BadRecipe(
                f"setting {name} of Config has no type, so it could never be set",
                hint=f"write {name}: {type(value).__name__} = {value!r}",
            )
    return {field.name: _kind(field.name, hints[field.name]) for field in _settable(config)}


def read_config(config: type, arguments: Sequence[str]) -> object:
    """Read `key=value` arguments into the dataclass; raise InvalidSettings with every mistake."""
    kinds = kinds_of(config)
    given, mistakes = split_arguments(arguments, kinds)
    values, more = read_values(given, kinds)
    missing = [
        f"{field.name} is not set, and must be {kinds[field.name].wanted}"
        for field in _settable(config)
        if field.name not in given and field.default is MISSING and field.default_factory is MISSING
    ]
    if mistakes or more or missing:
        raise InvalidSettings([*mistakes, *more, *missing])
    try:
        return config(**{name: values[name] for name in given})
    except ValueError as error:  # raised by the recipe's own __post_init__
        raise InvalidSettings([str(error)]) from None


def _settable(config: type) -> list[Field[Any]]:
    return [field for field in fields(config) if field.init]


def _kind(name: str, hint: object) -> ValueKind:
    if get_origin(hint) in (Union, UnionType):
        others = [kind for kind in get_args(hint) if kind is not NoneType]
        if len(others) == 1:
            return _kind(name, others[0])
    if get_origin(hint) is Literal and all(isinstance(value, (str, int)) for value in get_args(hint)):
        named = {str(value): value for value in reversed(get_args(hint))}  # of equal ones, the first counts
        return ValueKind(" or ".join(map(str, get_args(hint))), named.get)
    if not isinstance(hint, type) or hint not in _SIMPLE:
        shown = getattr(hint, "__name__", str(hint))
        raise BadRecipe(f"setting {name} of Config has the type {shown}", hint=f"allowed are {_ALLOWED}")
    return _SIMPLE[hint]


MODULE = "slipway.containers.recipes.command.own_recipe"
_RANK = "slipway.containers.runtime.launch.rank"


def recipe_words(module: str, settings: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs a rank through launch.rank, which also shuts it down."""
    options = (word for setting in settings for word in ("--set", setting))
    return ("python", "-m", _RANK, MODULE, module, *options)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))
    try:
        recipe = refuse_parts(import_module(options.module))
        config = read_config(recipe.Config, options.settings)
        code: object = recipe.train(config)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr, flush=True)
        return refusal.exit_code
    return code if isinstance(code, int) else 0


def refuse_parts(recipe: ModuleType) -> ModuleType:
    """Return the module; refuse one without `train` or `Config`, the parts of a recipe."""
    if not callable(getattr(recipe, "train", None)):
        raise BadRecipe(f"{recipe.__name__} has no function train", hint="write def train(config)")
    if not hasattr(recipe, "Config"):
        raise BadRecipe(f"{recipe.__name__} has no dataclass Config", hint="write one; it may have no fields")
    return recipe


if __name__ == "__main__":
    sys.exit(main())
