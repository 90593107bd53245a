"""Finds a project's own recipes: modules in its folder recipes/, with a `Config` and a `train(config)`.

Nodes run them as commands, so no platform knows of them. Every estimate looks for one, so what loads and
starts a recipe is imported only when one is found.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import UnusableFile, read_bytes
from slipway.jobs.output import say
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.installation import NoProject, find_project
from slipway.jobs.words.recipes import RECIPES, read_settings

if TYPE_CHECKING:
    from slipway.containers.training.settings import ValueKind
    from slipway.jobs.code.command_job import OwnCommand

FOLDER = "recipes"
MOST_BYTES = 4 << 20  # of a module
QUIET_SECONDS, LONGEST_IMPORT_SECONDS = 5.0, 60.0  # of an import, which includes PyTorch's on a busy machine


class BrokenRecipe(SlipwayError):
    """Reports a module of recipes/ that is no valid recipe."""

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
        from slipway.containers.recipes.command.own_recipe import kinds_of

        return kinds_of(self.code.Config)

    def read(self, settings: Mapping[str, str]) -> object:
        """Read the settings as each rank will, before a node is paid for."""
        from slipway.containers.recipes.command.own_recipe import read_config

        return read_settings(partial(read_config, self.code.Config), settings)


def own_names() -> list[str]:
    """List the project's own recipes; none without a project, or in Slipway's checkout."""
    folder = _folder()
    return sorted(path.stem for path in folder.glob("*.py") if path.stem.isidentifier()) if folder else []


def find_own_recipe(name: str) -> OwnRecipe | None:
    """Return the project's own recipe of this name, if it has one."""
    folder = _folder()
    if folder is None or name not in own_names():  # in this case: the disk of a Mac would find any
        return None
    path = folder / f"{name}.py"
    if name in RECIPES:
        raise BrokenRecipe(
            f"{FOLDER}/{path.name} has the name of a recipe of Slipway", hint="give the file another name"
        )
    return OwnRecipe(name=name, project=path.parent.parent, code=_load(path))


def own_command(own: OwnRecipe, settings: Mapping[str, str]) -> OwnCommand:
    """Return the command that starts the recipe with these settings; refuse wrong ones."""
    from slipway.containers.recipes.command.own_recipe import recipe_words
    from slipway.jobs.code.command_job import OwnCommand

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
    from slipway.containers.recipes.command.own_recipe import kinds_of, refuse_parts

    where = f"{FOLDER}/{path.name}"
    try:
        read_bytes(path, MOST_BYTES)  # Python itself would read a device for ever, and wait for a FIFO
    except UnusableFile as refusal:
        raise BrokenRecipe(refusal.message.replace(str(path), where), hint=refusal.hint) from None
    spec = spec_from_file_location(f"{FOLDER}.{path.stem}", path)
    assert spec is not None, f"{path} is a file of Python"
    assert spec.loader is not None
    module = module_from_spec(spec)
    if str(path.parent.parent) not in sys.path:  # last, so that a user's types.py shadows nothing
        sys.path.append(str(path.parent.parent))
    sys.modules[module.__name__] = module  # dataclasses look up the types of their fields there
    try:
        with _bounded(where):
            spec.loader.exec_module(module)
        kinds_of(refuse_parts(module).Config)
    except BrokenRecipe:
        raise
    except Refusal as refusal:
        raise BrokenRecipe(f"{where}: {refusal.message}", hint=refusal.hint) from None
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise _broken(error, path, where) from error
    return module


@contextmanager
def _bounded(where: str) -> Iterator[None]:
    """Interrupt an import that takes too long, by an alarm in the main thread; other threads cannot be."""
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    waits = iter((True, False))

    def late(_number: int, _frame: object) -> None:
        if next(waits, False):  # interrupts again if the import swallowed the error
            say(f"{where} is being imported …")
            return
        raise BrokenRecipe(
            f"{where} is still being imported after {LONGEST_IMPORT_SECONDS:g} seconds",
            hint="do the work inside of train: whoever lists recipes or submits one imports its module",
        )

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, QUIET_SECONDS, LONGEST_IMPORT_SECONDS - QUIET_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _broken(error: BaseException, path: Path, where: str) -> BrokenRecipe:
    from traceback import extract_tb

    frames = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else next(iter(frames), 0)
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        hint = f"import {error.name} inside of train: who submits may not have it"
    said = " ".join(str(error).split())
    return BrokenRecipe(f"{where}:{line} raised {type(error).__name__}: {said}", hint=hint)
