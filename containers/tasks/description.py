"""Describe a user's own training in a file that every rank reads, and its functions by their names.

Another fact of a task is one field of TaskDescription; `identity` leaves out fields that may change when a
training resumes. Standard library only: a laptop writes the file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from types import ModuleType

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.named_files import read_text

FACTS_NAME = "facts.json"  # written beside the logs, for estimates from a trial
_MOST_BYTES = 1 << 20
_CODE = ("load_model", "load_dataloader", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDescription:
    name: str
    load_model: CodeReference
    load_dataloader: CodeReference
    loss: CodeReference
    rate: float  # the learning rate
    optimizer: str
    epochs: int | None  # either epochs or batches is None
    batches: int | None
    arguments: Mapping[str, Json] = field(default_factory=dict)  # for load_model
    micro_batch: int | None = None  # rows that are computed together; None: all rows of a rank
    seed: int = 0
    precision: str = "fp32"

    def identity(self) -> dict[str, Json]:
        """Return the fields that a resumed training must share with the saved one."""
        found = self.as_json()
        return {name: value for name, value in found.items() if name not in ("epochs", "batches")}

    def as_json(self) -> dict[str, Json]:
        record: dict[str, Json] = {each.name: getattr(self, each.name) for each in fields(self)}
        code = {name: getattr(self, name).as_json() for name in _CODE}
        return {**record, **code, "arguments": dict(self.arguments)}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), indent=1), encoding="utf-8")


def read_description(path: Path) -> TaskDescription:
    return parse_description(read_text(path, _MOST_BYTES))


def parse_description(text: str) -> TaskDescription:
    """Read what as_json wrote."""
    try:
        record = json.loads(text)
        code = {name: CodeReference.from_json(record[name]) for name in _CODE}
        return TaskDescription(**{**record, **code})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Refusal("the description of a task is damaged", hint="submit the job again") from None


# Functions and classes of the user are sent by name, without pickle. One of an importable module is sent as
# module and name; one of the script that was started is sent as the script's file and the name, and the other
# process runs that script up to its first call of `search` or `orchestrate`.
_MAIN = "__main__"
_loading = False


class ScriptStops(BaseException):
    """Ends a script that another process runs only for its definitions."""


def is_loading() -> bool:
    return _loading


def stop_if_loading() -> None:
    """Raise ScriptStops if this process runs a script only for its definitions."""
    if _loading:
        raise ScriptStops


@contextmanager
def _definitions_only() -> Iterator[None]:
    global _loading  # noqa: PLW0603 - one script is loaded at a time, on the only thread there is
    before, _loading = _loading, True
    try:
        yield
    except ScriptStops:
        pass
    finally:
        _loading = before


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReference:
    """Name a function or class by the place of its definition, with the arguments of a partial."""

    module: str
    name: str  # within the module, with dots
    file: str | None = None  # of a script; None: the module can be imported
    arguments: tuple[Json, ...] = ()
    options: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object, what: str) -> CodeReference:
        """Refer to what the user gave; refuse it if no other process could find it."""
        if isinstance(given, partial):
            return _of_partial(given, what)
        module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", None)
        if not module or not name:
            kind = type(given).__name__
            raise Refusal(
                f"{what} is an object of {kind}, which other processes cannot find by a name",
                hint=f"give a function of a module that returns or calls the {kind}",
            )
        if "<" in name:
            raise Refusal(
                f"{what} is {name} of {module}, which other processes cannot find by a name",
                hint="define it with `def` at the top of a file",
            )
        if module != _MAIN:
            return cls(module=module, name=name)
        script = getattr(sys.modules[_MAIN], "__file__", None)
        if not script:
            raise Refusal(
                f"{what} is {name}, which was typed into an interactive session",
                hint="write it into a file and import it: other processes have to find it",
            )
        return cls(module=module, name=name, file=str(Path(script).resolve()))

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> CodeReference:
        return cls(**{**record, "arguments": tuple(record["arguments"])})  # type: ignore[arg-type]  # as_json wrote it

    def as_json(self) -> dict[str, Json]:
        return {**asdict(self), "arguments": list(self.arguments)}

    @property
    def source(self) -> Path | None:
        """Return the file with the definition; None for a built-in."""
        if self.file is not None:
            return Path(self.file)
        found = getattr(importlib.import_module(self.module), "__file__", None)
        return Path(found) if found else None

    def content_digest(self) -> str:
        """Return a digest that changes with the file that defines it."""
        source = self.source
        content = source.read_bytes() if source is not None and source.is_file() else b""
        words = json.dumps(self.as_json(), sort_keys=True)
        return hashlib.sha256(words.encode() + b"\0" + content).hexdigest()

    def resolve(self) -> Callable[..., object]:
        """Return the function or class itself."""
        found: object = self._module()
        for part in self.name.split("."):
            if not hasattr(found, part):
                raise Refusal(f"{self.file or self.module} has no {self.name}", hint="was it renamed since?")
            found = getattr(found, part)
        assert callable(found), "functions and classes are referred to"
        return partial(found, *self.arguments, **self.options) if self.arguments or self.options else found

    def _module(self) -> ModuleType:
        if self.file is None:
            return importlib.import_module(self.module)
        main = sys.modules.get(_MAIN)
        if main is not None and getattr(main, "__file__", None) == self.file:
            return main
        return _run_script(self.file)


def _of_partial(given: partial[object], what: str) -> CodeReference:
    inner = CodeReference.of(given.func, what)
    try:
        json.dumps([given.args, given.keywords])
    except (TypeError, ValueError):
        raise Refusal(
            f"{what} is a partial of {inner.name} with arguments that are no plain values",
            hint="give text, numbers, lists and dictionaries, and make the rest inside the function",
        ) from None
    return CodeReference(
        module=inner.module,
        name=inner.name,
        file=inner.file,
        arguments=(*inner.arguments, *given.args),
        options={**inner.options, **given.keywords},
    )


def _run_script(file: str) -> ModuleType:
    """Run a script once, as a module of its own name, until it would search or orchestrate."""
    name = f"slipway_script_{hashlib.sha256(file.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None, "it is a .py file that ran before"
        assert spec.loader is not None, "likewise"
        sys.path.insert(0, str(Path(file).parent))
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        with _definitions_only():
            spec.loader.exec_module(module)
    return sys.modules[name]
