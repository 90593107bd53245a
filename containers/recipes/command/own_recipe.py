"""One rank of a user's own recipe, in the user's folder: python -m …own_recipe recipes.NAME --set key=value.

Its module has a dataclass `Config` and a function `train(config)`, which returns nothing or an exit code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from slipway.containers.recipes.command.typed_config import BadRecipe, read_config
from slipway.containers.runtime.errors import Refusal

MODULE = "slipway.containers.recipes.command.own_recipe"
_RANK = "slipway.containers.runtime.launch.rank"


def recipe_words(module: str, settings: Sequence[str]) -> tuple[str, ...]:
    """Return the command that starts a rank of the recipe and ends it well; settings are key=value."""
    return ("python", "-m", _RANK, MODULE, module, *(word for each in settings for word in ("--set", each)))


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
    """Refuse a module that lacks what makes it a recipe."""
    if not callable(getattr(recipe, "train", None)):
        raise BadRecipe(f"{recipe.__name__} has no function train", hint="write def train(config)")
    if not hasattr(recipe, "Config"):
        raise BadRecipe(f"{recipe.__name__} has no dataclass Config", hint="write one; it may have no fields")
    return recipe


if __name__ == "__main__":
    sys.exit(main())
