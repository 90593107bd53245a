"""Find the techniques that `search` tries: ours, and those that the user registers.

The registry keeps a class's module and name. Later sessions find a class of an importable module again; a
class of the running script is known only while the script runs.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast, overload

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import CodeReference, is_loading
from slipway.jobs.plan.tasks.task import BaseTechnique
from slipway.jobs.plan.techniques.techniques import TECHNIQUES
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.errors import SlipwayError, did_you_mean
from slipway.jobs.words.given import checked

VARIABLE = "SLIPWAY_TECHNIQUES"  # overrides the path of the registry's file

_of_this_session: dict[str, CodeReference] = {}


class UnknownTechnique(SlipwayError):
    exit_code = 2


class NotATechnique(SlipwayError, RuntimeError):
    """Reports an object that is no subclass of BaseTechnique: a RuntimeError, as in Saturn."""


def register(name: str, technique: type[BaseTechnique]) -> None:
    """Let `search` try a technique of the user's own under this name."""
    _refuse_name(name)
    given: object = technique
    if not isinstance(given, type) or not issubclass(given, BaseTechnique):
        raise NotATechnique(
            f"'{name}' is {given!r}, which is no subclass of BaseTechnique",
            hint="write `class MyTechnique(BaseTechnique)` with `execute` and `search`",
        )
    missing = [each for each in ("execute", "search") if not callable(getattr(technique, each, None))]
    if missing:
        raise NotATechnique(f"'{name}' has no {' and no '.join(missing)}", hint="write both functions")
    if is_loading():
        return  # this process imports the script only for its definitions
    try:
        reference = CodeReference.of(technique, f"technique '{name}'")
    except Refusal as refusal:
        raise NotATechnique(refusal.message, hint=refusal.hint) from None
    if reference.file is None:
        with _changed() as listed:
            listed[name] = reference.as_json()
    _of_this_session[name] = reference


@checked
def deregister(name: str | Sequence[str]) -> None:
    """Remove one or several of the user's own techniques."""
    for each in [name] if isinstance(name, str) else name:
        if each in TECHNIQUES:
            raise UnknownTechnique(
                f"'{each}' is our own technique and stays",
                hint="name those that you want: search(tasks, executor_names=[…])",
            )
        find_reference(each)
        _of_this_session.pop(each, None)
        with _changed() as listed:
            listed.pop(each, None)


@overload
def retrieve(name: str) -> type[BaseTechnique]: ...
@overload
def retrieve(name: list[str] | None = None) -> list[type[BaseTechnique]]: ...
def retrieve(
    name: str | list[str] | None = None,
) -> type[BaseTechnique] | list[type[BaseTechnique]]:
    """Return the class of one technique, of several, or of all, ours first."""
    if isinstance(name, str):
        return _class_of(name)
    return [_class_of(each) for each in (all_names() if name is None else name)]


def all_names() -> list[str]:
    return [*TECHNIQUES, *(name for name in {**_listed(), **_of_this_session} if name not in TECHNIQUES)]


def find_reference(name: str) -> CodeReference:
    """Return where a technique of the user's own is defined."""
    if name in _of_this_session:
        return _of_this_session[name]
    listed = _listed()
    if name not in listed:
        raise UnknownTechnique(
            f"there is no technique '{name}'",
            hint=did_you_mean(name, all_names(), otherwise=f"there are {', '.join(all_names())}"),
        )
    return CodeReference.from_json(cast(Mapping[str, object], listed[name]))


def _class_of(name: str) -> type[BaseTechnique]:
    if name in TECHNIQUES:
        from slipway.jobs.plan.tasks.our_techniques import technique_class

        return technique_class(name)
    try:
        found = find_reference(name).resolve()
    except (Refusal, ImportError) as error:
        raise UnknownTechnique(
            f"technique '{name}' cannot be loaded: {error}", hint="register it again, or deregister it"
        ) from None
    if not isinstance(found, type) or not issubclass(found, BaseTechnique):
        raise NotATechnique(f"'{name}' is no longer a subclass of BaseTechnique", hint="register it again")
    return found


def _refuse_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise NotATechnique(f"a technique's name is {name!r}", hint="give it a word, such as my_parallelism")
    if name in TECHNIQUES:
        raise NotATechnique(f"'{name}' is our own technique", hint="give yours another name")


def _path() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "slipway" / "techniques.json"


def _listed() -> dict[str, Json]:
    try:
        found = json.loads(_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UnknownTechnique(
            f"{_path()} cannot be read: {error}", hint="delete it, and register again"
        ) from None
    return dict(found)


@contextmanager
def _changed() -> Iterator[dict[str, Json]]:
    """Change the file under a lock, atomically."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listed = _listed()
        yield listed
        write_whole(path, json.dumps(listed, indent=1))
