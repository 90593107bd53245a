"""Runs a project's clusters.py and says in one line what is wrong with it, with its file and line.

It is the user's own program: it may import what lies beside it, print, raise, or never end.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import FrameType, ModuleType
from typing import Any

from slipway.infra.declare.checks.field_types import field_types
from slipway.infra.declare.checks.values import nearest
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import Cluster
from slipway.jobs.words.errors import InvalidConfig, Problem

MOST_SECONDS = 30.0
_NAME = "clusters"


class TookTooLong(BaseException):
    """Ends clusters.py, whatever it catches."""


def run_declarations(path: Path) -> ModuleType:
    """Return the module that the file makes; a second call returns the first one's."""
    known = sys.modules.get(_NAME)
    if known is not None and known.__file__ == str(path):
        return known
    spec = spec_from_file_location(_NAME, path)
    assert spec is not None, f"{path} is a file of Python"
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Behind everything else: a user's types.py takes nobody's place.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[_NAME] = module
    try:
        # What it prints is for the person: the declarations go to standard output as JSON.
        with redirect_stdout(sys.stderr), _limited(MOST_SECONDS):
            spec.loader.exec_module(module)
    except (Exception, SystemExit, TookTooLong) as error:
        del sys.modules[_NAME]
        raise InvalidConfig([_problem(error, path)]) from error
    return module


def _problem(error: BaseException, path: Path) -> Problem:
    if isinstance(error, SyntaxError) and error.filename:
        return Problem(
            where=f"{_short(error.filename, path)}:{error.lineno}", message=f"is no Python: {error.msg}"
        )
    where = f"{path.name}:{_line(error, path)}"
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


def _line(error: BaseException, path: Path) -> int:
    """Return the line of clusters.py that was running, whichever module of its imports raised."""
    return next(
        (frame.lineno or 0 for frame in extract_tb(error.__traceback__) if frame.filename == str(path)), 0
    )


def _short(name: str, path: Path) -> str:
    file = Path(name)
    return str(file.relative_to(path.parent)) if file.is_relative_to(path.parent) else name


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End the block after so long; signals reach the main thread only, and elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
