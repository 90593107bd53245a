"""Packages that only decide read no clock and no outside state, and the runtime needs only Python.

import-linter's contracts in pyproject.toml check imports through other modules; the tests here check what it
cannot see: clocks, chance, and unlisted packages. To add a pure package, add a row to PURE.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture import tracked

WORDS = ("slipway.jobs.words",)
# Each package with those of our packages that it may import.
PURE = {
    "slipway.jobs.words": (
        *WORDS,
        "slipway.containers.runtime.contract.variables",
        "slipway.containers.runtime.errors",
        "slipway.containers.training.config",
        "slipway.containers.training.layout",
    ),
    "slipway.jobs.estimate": (*WORDS, "slipway.jobs.estimate", "slipway.containers.training.layout"),
    "slipway.jobs.plan.search": (
        *WORDS,
        "slipway.jobs.estimate",
        "slipway.jobs.plan.search",
        "numpy",
        "highspy",
        "numba",
        "ortools",
    ),
    "slipway.jobs.plan.techniques": (
        *WORDS,
        "slipway.jobs.estimate",
        "slipway.jobs.plan.search",
        "slipway.jobs.plan.techniques",
        "numpy",
    ),
}
# It gathers the inputs of the estimate, which is pure.
NOT_PURE = "jobs/estimate/inputs/"
CLOCKS = {"now", "today", "utcnow"}  # of datetime and date
CHANCE = ("os.urandom", "random.", "secrets.", "uuid.uuid1", "uuid.uuid4", "numpy.random.")
RUNTIME = "containers/runtime/"
LOADS_ON_USE = "containers/runtime/checkpoint/tensor_file.py"


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def foreign(nodes: Iterable[ast.AST], allowed: tuple[str, ...]) -> list[str]:
    """Neither the standard library's nor of the packages that are allowed."""
    return [
        f"{line} imports {name}"
        for line, name in imports(nodes)
        if name.split(".")[0] not in sys.stdlib_module_names and not is_within(name, allowed)
    ]


def worldly(nodes: Iterable[ast.AST]) -> list[str]:
    """Find calls whose result differs from run to run; a seeded `random.Random(seed)` is allowed."""
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("random", "secrets"):
            found.append(f"{node.lineno} takes names out of {node.module}; write {node.module}.…")
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_seeded = called.startswith("random.Random(") or (called == "random.Random" and node.args)
        if called.rpartition(".")[2] in CLOCKS or (called.startswith(CHANCE) and not is_seeded):
            found.append(f"{node.lineno} calls {called}")
    return found


def folder_of(package: str) -> str:
    return package.removeprefix("slipway.").replace(".", "/") + "/"


def sources(folder: str) -> list[str]:
    paths = [path for path in tracked.paths(".py") if path.startswith(folder)]
    return [path for path in paths if not path.startswith(NOT_PURE)]


def module_of(path: str) -> str:
    return f"slipway.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def contract(name: str) -> dict[str, list[str]]:
    contracts = tomllib.loads(tracked.text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    found: dict[str, list[str]] = next(each for each in contracts if each["id"] == name)
    return found


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_needs_only_python_and_pure_packages(package: str) -> None:
    assert not [
        f"{path}:{line}"
        for path in sources(folder_of(package))
        for line in foreign(tracked.nodes(path), PURE[package])
    ]


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_reads_no_clock_and_leaves_nothing_to_chance(package: str) -> None:
    paths = sources(folder_of(package))
    assert not [f"{path}:{line}" for path in paths for line in worldly(tracked.nodes(path))]


def test_import_linter_holds_every_pure_module_there_is() -> None:
    held = tuple(contract("pure")["source_modules"])
    pure = {module_of(path) for package in PURE for path in sources(folder_of(package))}
    assert {"slipway.jobs.words", "slipway.jobs.estimate.bill"} <= pure
    empty = {"slipway.jobs.estimate"}  # re-exports from those below it
    assert not [module for module in pure - empty if not is_within(module, held)]


def test_the_runtime_needs_nothing_but_python() -> None:
    paths = sources(RUNTIME)
    assert paths
    strangers = [
        f"{path}:{line}"
        for path in paths
        for line in foreign(tracked.nodes(path), ("slipway.containers.runtime",))
    ]
    # The package itself has nothing in it: settings.py asks it where our files are.
    assert not [line for line in strangers if not line.endswith(" imports slipway.containers")]


def test_the_runtime_loads_a_framework_in_one_module_only() -> None:
    loads = [
        path
        for path in sources(RUNTIME)
        for node in tracked.nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__")
    ]
    assert set(loads) == {LOADS_ON_USE}


@pytest.mark.parametrize(
    "source",
    [
        "import boto3",
        "def late():\n    import torch",
        "from slipway.jobs.cloud.aws import client",
        "import slipway.containers.data",
    ],
)
def test_a_stray_import_would_be_found(source: str) -> None:
    assert foreign(ast.walk(ast.parse(source)), PURE["slipway.jobs.plan.search"])


@pytest.mark.parametrize(
    "source",
    [
        "datetime.now(UTC)",
        "dt.date.today()",
        "random.random()",
        "random.Random()",
        "from random import shuffle",
        "uuid.uuid4()",
        "os.urandom(8)",
    ],
)
def test_a_clock_or_a_chance_would_be_found(source: str) -> None:
    assert worldly(ast.walk(ast.parse(source)))


def test_seeded_chance_is_allowed() -> None:
    assert not worldly(ast.walk(ast.parse("random.Random(7).shuffle(jobs)")))
