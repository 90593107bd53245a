"""Finds the modules of a user's functions, and the one folder from which nodes import them."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import CodeReference
from slipway.jobs.code.folder import DEFAULT_LIMIT_MB, ProjectFolder, read_folder
from slipway.jobs.words.errors import SlipwayError

_OURS = "slipway.containers"
_MAIN = "__main__"


class CannotTravel(SlipwayError):
    """Reports code that no node could find."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UserModule:
    """Hold a module of the user's own, and the folder from which it is imported."""

    what: str
    path: Path
    root: Path


def find_module(code: CodeReference, what: str) -> UserModule | None:
    """Return the module that has to be sent; None if every image has it."""
    if code.module == _OURS or code.module.startswith(f"{_OURS}."):
        return None
    source = code.source
    path = None if source is None else source.resolve()
    installed = {Path(place).resolve() for place in sysconfig.get_paths().values()}
    if path is None or installed & set(path.parents):
        return None
    parts = len(code.module.split("."))
    return UserModule(
        what=what, path=path, root=path.parents[parts if path.name == "__init__.py" else parts - 1]
    )


def folder_of(
    modules: Sequence[UserModule], *, limit_mb: int = DEFAULT_LIMIT_MB, include_secrets: bool = False
) -> ProjectFolder:
    """Return the folder from which all modules are imported; refuse modules that would not be sent."""
    roots: dict[Path, UserModule] = {}
    for module in modules:
        roots.setdefault(module.root, module)
    if len(roots) > 1:
        (one, first), (other, second) = list(roots.items())[:2]
        raise CannotTravel(
            f"{first.what} lies in {one} and {second.what} in {other}, and one folder is sent",
            hint="put the modules of all tasks into one folder",
        )
    root = next(iter(roots), Path.cwd())
    folder = read_folder(root, limit_mb=limit_mb, include_secrets=include_secrets)
    sent = {file.name for file in folder.files}
    for module in modules:
        name = str(module.path.relative_to(folder.path.resolve()))
        if name not in sent:
            raise CannotTravel(
                f"{module.what} is defined in {name}, which git ignores, so that it is not sent",
                hint="take it out of .gitignore",
            )
    return folder


def importable(function: object, what: str) -> CodeReference:
    """Return the module and name by which a node finds the function; a script is a module of its folder."""
    try:
        code = CodeReference.of(function, what)
        found = code.resolve()
    except Refusal as refusal:
        raise CannotTravel(refusal.message, hint=refusal.hint) from None
    if inspect.ismethod(function) and not inspect.isclass(function.__self__):
        raise CannotTravel(
            f"{what} is {code.name} of an object, which does not travel",
            hint="define a function at the top of the file that makes the object",
        )
    if found != function and not isinstance(function, partial):
        raise CannotTravel(
            f"{what} is not what {code.module} has as {code.name} now",
            hint=f"import it again, or give it another name than {code.name}",
        )
    if code.file is not None:
        spec = getattr(sys.modules[_MAIN], "__spec__", None)  # of python -m
        script = Path(code.file)
        if spec is None and ("." in script.stem or script.suffix != ".py"):
            raise CannotTravel(
                f"{what} is defined in {script.name}, which no node can import by that name",
                hint="name the script with one dot, as in train.py",
            )
        code = replace(code, module=spec.name if spec else script.stem)
    return code
