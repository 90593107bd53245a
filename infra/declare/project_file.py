"""Runs a project's clusters.py and reports in one line what is wrong with it, with its file and line.

It is the user's own program: it may import its neighbours, print, raise, or never end.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from importlib import invalidate_caches
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from slipway.infra.declare.checks.values import field_types, nearest
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.installation import Project

MOST_SECONDS = 30.0
_AT_ONCE = 0.001
_NAME = "clusters"
_NEVER_ANEW = frozenset({"__main__", "slipway"})  # a process has one of each, wherever its files are
_ONE_AT_A_TIME = threading.RLock()  # the current folder and the imports belong to the whole process


class TookTooLong(BaseException):
    """Ends clusters.py, even if that catches exceptions."""


def run_declarations(project: Project) -> ModuleType:
    """Run the project's file and return the module that it makes.

    It is run again each time, since it, its neighbours or the current folder may have changed.
    """
    path = project.declarations
    module = ModuleType(_NAME)
    module.__file__ = str(path)
    try:
        with (
            _ONE_AT_A_TIME,
            _printing_to_standard_error(),
            chdir(project.folder),
            _importing_from(path.parent, module),
            _limited(MOST_SECONDS),
        ):
            program = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            exec(program, vars(module))  # noqa: S102 - the user's own program, which a command is asked to read
    except (Exception, SystemExit, TookTooLong) as error:  # a user's module may raise anything
        raise InvalidConfig([_problem(error, path)]) from error
    return module


@contextmanager
def _printing_to_standard_error() -> Iterator[None]:
    """Keep standard output for the commands' data, also from programs that clusters.py starts."""
    with redirect_stdout(sys.stderr):
        try:
            ours = os.dup(1)
            os.dup2(2, 1)
        except OSError:  # one of them is closed
            yield
            return
        try:
            yield
        finally:
            os.dup2(ours, 1)
            os.close(ours)


@contextmanager
def _importing_from(folder: Path, module: ModuleType) -> Iterator[None]:
    """Let imports find the folder's current files, and restore the imports afterwards."""
    before, path = _modules_of(folder), [*sys.path]
    for name in before:
        del sys.modules[name]
    sys.modules[_NAME] = module
    sys.path.append(str(folder))  # last, so that a user's types.py shadows nothing
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in _modules_of(folder):
            del sys.modules[name]
        sys.modules.update(before)


def _modules_of(folder: Path) -> dict[str, ModuleType]:
    """Return imported modules of the user's own files there, without packages of an environment in it."""
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if name == _NAME
        or _is_in(folder, name.partition(".")[0], getattr(module, "__dict__", {}).get("__file__"))
    }


def _is_in(folder: Path, package: str, file: str | None) -> bool:
    if file is None or package in _NEVER_ANEW or not file.startswith(f"{folder}{os.sep}"):
        return False
    return "site-packages" not in Path(file).parts


def _problem(error: BaseException, path: Path) -> Problem:
    if isinstance(error, SyntaxError) and error.filename:
        file = Path(error.filename)
        short = file.relative_to(path.parent) if file.is_relative_to(path.parent) else error.filename
        return Problem(where=f"{short}:{error.lineno}", message=f"is no Python: {error.msg}")
    from traceback import extract_tb  # imported here: every command reads declarations, and few are wrong

    # The line of clusters.py that was running, whichever of its imports raised.
    frames = extract_tb(error.__traceback__)
    line = next((frame.lineno or 0 for frame in frames if frame.filename == str(path)), 0)
    where = f"{path.name}:{line}"
    if isinstance(error, TookTooLong):
        return Problem(
            where=where,
            message=f"took longer than {MOST_SECONDS:g} s, and every command reads it",
            hint="declare clusters there, and compute elsewhere",
        )
    if isinstance(error, TypeError) and ".__init__() " in str(error):
        return misspelt(str(error), where)
    said = " ".join(str(error).split())
    return Problem(where=where, message=f"raised {type(error).__name__}{f': {said}' if said else ''}")


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End the block after this time; without effect outside the main thread, which alone gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    before, began = signal.signal(signal.SIGALRM, end), time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # Restore a timer that another caller had set.
        rest = max(left - (time.monotonic() - began), _AT_ONCE) if left else 0
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, rest, interval)


def misspelt(message: str, where: str) -> Problem:
    """Turn Python's TypeError for an unknown or missing setting into a problem."""
    entry, _, said = message.partition(".__init__() ")
    kinds: tuple[type[Any], ...] = (*_kinds(Cluster), MachineImage)
    kind = next((each for each in kinds if each.__name__ == entry), Cluster)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", said)
    hint = nearest(unknown[1], tuple(field_types(kind))) if unknown else "add it to the entry"
    said = f"'{unknown[1]}' is not a setting" if unknown else said or message
    return Problem(where=where, message=said, hint=hint)


def _kinds(base: type[Cluster]) -> Iterator[type[Cluster]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)
