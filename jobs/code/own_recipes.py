"""Recipes of the project's own: the modules of its folder recipes/, with a `Config` and a `train(config)`.

They run on nodes as the command that starts them, so that no platform knows of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from slipway.containers.recipes.command.own_recipe import kinds_of, read_config, recipe_words, refuse_parts
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.settings import ValueKind
from slipway.jobs.code.folder import CannotShip, ProjectFolder
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import NoProject, find_project
from slipway.jobs.words.job import LONGEST_NAME, DoesNotFit
from slipway.jobs.words.recipes import RECIPES, read_settings
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

FOLDER = "recipes"


class BrokenRecipe(SlipwayError):
    """Reports a module of recipes/ that is none."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecipe:
    name: str
    project: Path  # the folder that is sent
    code: ModuleType

    @property
    def module(self) -> str:
        return f"{FOLDER}.{self.name}"

    @property
    def summary(self) -> str:
        lines = (self.code.__doc__ or "").strip().splitlines()
        return lines[0] if lines else ""

    def kinds(self) -> Mapping[str, ValueKind]:
        return kinds_of(self.code.Config)

    def read(self, settings: Mapping[str, str]) -> object:
        """Read the settings as each rank will, before a node is paid for."""
        return read_settings(partial(read_config, self.code.Config), settings)


def own_names() -> list[str]:
    """List the project's own recipes; none where there is no project, or it is Slipway's checkout."""
    folder = _folder()
    return sorted(path.stem for path in folder.glob("*.py") if path.stem.isidentifier()) if folder else []


def find_own_recipe(name: str) -> OwnRecipe | None:
    """Return the project's own recipe of this name, if it has one."""
    folder = _folder()
    path = folder / f"{name}.py" if folder and name.isidentifier() else None
    if path is None or not path.is_file():
        return None
    if name in RECIPES:
        raise BrokenRecipe(
            f"{FOLDER}/{path.name} has the name of a recipe of Slipway", hint="give the file another name"
        )
    return OwnRecipe(name=name, project=path.parent.parent, code=_load(path))


def own_command(own: OwnRecipe, settings: Mapping[str, str]) -> OwnCommand:
    """Return the command that starts the recipe with these settings; refuse wrong ones."""
    own.read(settings)
    return OwnCommand(words=recipe_words(own.module, [f"{name}={text}" for name, text in settings.items()]))


def _folder() -> Path | None:
    try:
        project = find_project()
    except NoProject:
        return None
    folder = project.folder / FOLDER
    return None if project.is_checkout or not folder.is_dir() else folder


def _load(path: Path) -> ModuleType:
    where = f"{FOLDER}/{path.name}"
    spec = spec_from_file_location(f"{FOLDER}.{path.stem}", path)
    assert spec is not None, f"{path} is a file of Python"
    assert spec.loader is not None
    module = module_from_spec(spec)
    if str(path.parent.parent) not in sys.path:  # behind everything else: a user's types.py takes no place
        sys.path.append(str(path.parent.parent))
    sys.modules[module.__name__] = module  # dataclasses look there for the types of their fields
    try:
        spec.loader.exec_module(module)
        kinds_of(refuse_parts(module).Config)
    except Refusal as refusal:
        raise BrokenRecipe(f"{where}: {refusal.message}", hint=refusal.hint) from None
    except (Exception, SystemExit) as error:
        raise _broken(error, path, where) from error
    return module


def _broken(error: BaseException, path: Path, where: str) -> BrokenRecipe:
    frames = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else next(iter(frames), 0)
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        hint = f"import {error.name} inside of train: who submits may not have it"
    said = " ".join(str(error).split())
    return BrokenRecipe(f"{where}:{line} raised {type(error).__name__}: {said}", hint=hint)


# A user's command as settings of the recipe `command`, which carries it to every platform. Pure.
RECIPE = "command"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# AWS Batch would replace it in a command; in JSON the same word has another spelling.
_PLACEHOLDER, _SPELLED_OTHERWISE = "Ref::", "Ref:\\u003a"
_NO_INDEX = re.compile(r"^\s*--no-index\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """Hold what a person wants to run, beside the folder and the place."""

    words: tuple[str, ...]
    is_per_node: bool = False  # it starts the processes of its node itself
    requirements: str | None = None  # a file of the folder


def command_settings(command: OwnCommand, source: str) -> dict[str, str]:
    """Return the settings; `source` is where the folder's archive lies."""
    words = json.dumps(command.words).replace(_PLACEHOLDER, _SPELLED_OTHERWISE)
    return {
        "source": source,
        "command": words,
        **({"per_node": "yes"} if command.is_per_node else {}),
        **({"requirements": command.requirements} if command.requirements else {}),
    }


def folder_name(folder: Path) -> str:
    """Return the folder's name as a job may have it."""
    name = _NO_NAME.sub("-", folder.resolve().name).strip("-_")[:LONGEST_NAME]
    return name or RECIPE


def refuse_requirements(requirements: str, folder: ProjectFolder, target: Target) -> None:
    """Refuse a file that does not travel, and one that no node of the cluster could install."""
    refuse_left_behind(requirements, folder)
    content = (folder.path / requirements).read_text(encoding="utf-8", errors="replace")
    refuse_uninstallable(requirements, content, target)


def refuse_left_behind(requirements: str, folder: ProjectFolder) -> None:
    """Refuse a file that does not travel with its folder."""
    if requirements not in {file.name for file in folder.files}:
        raise CannotShip(
            f"requirements {printable(requirements)} is no file that is sent from "
            f"{printable(str(folder.path))}",
            hint="give a file of the folder that git does not ignore, without ./ before it",
        )


def refuse_uninstallable(requirements: str, content: str, target: Target) -> None:
    """Refuse packages that pip would look for where no node of the cluster can."""
    if not target.has_internet and not _NO_INDEX.search(content):
        raise DoesNotFit(
            f"the nodes of {target.name} reach no internet, so that pip could not install "
            f"{printable(requirements)} there",
            hint="put wheels into the folder, with --no-index and --find-links in the file; or deploy with a "
            f"way out: cdk deploy {target.name} -c {target.name}.egress=nat",
        )
