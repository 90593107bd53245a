"""Modules import only what they may: import-linter checks the layers, and the tables here the rest."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.architecture import tracked

# Where a package may be imported, inside functions too. Tests may import all but the last three.
HOMES = {
    # The template and the apps are a user's own programs.
    "boto3": ("jobs/cloud/aws.py", "jobs/code/template/", "tests/end_to_end/apps/"),
    "aws_cdk": ("infra/", "tests/", "docs/examples/"),
    "cdk_nag": ("infra/", "tests/"),
    "constructs": ("infra/", "tests/"),
    "moto": ("yard/", "tests/"),
    "cfnlint": ("yard/", "infra/gates/", "infra/verify/gates.py", "tests/"),
    "rich": ("jobs/output.py", "tests/"),
    "scripts": ("scripts/", "tests/"),
    # It reads pickles without classes: each name in one becomes an inert record.
    "pickle": (
        "containers/models/distributed_slices.py",
        "tests/containers/models/test_distributed_slices.py",
    ),
    "marshal": (),
    "shelve": (),
}


def imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name.split(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.split(".")[0]


def strangers(path: str, nodes: Iterable[ast.AST]) -> list[str]:
    return [
        f"{path}:{line} imports {package}; only {', '.join(HOMES[package]) or 'nobody'} may"
        for line, package in imported(nodes)
        if package in HOMES and not path.startswith(HOMES[package] or ("/",))
    ]


def test_the_types_of_every_service_of_the_cdk_that_is_used_are_checked() -> None:
    services = {
        f"aws_cdk.{name.name}"
        for path in tracked.paths(".py")
        for node in tracked.nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "aws_cdk"
        for name in node.names
        if name.name.startswith("aws_")
    }
    overrides = tomllib.loads(tracked.text("pyproject.toml"))["tool"]["mypy"]["overrides"]
    (checked,) = (one["module"] for one in overrides if "aws_cdk" in one["module"])
    assert services
    assert services <= {*checked}, "pyproject.toml, [[tool.mypy.overrides]]"


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for typing and inside functions count, too: who reads one file of a circle has to read all."""
    graph = grimp.build_graph("slipway", "scripts", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError with the circle


def test_every_package_of_ours_is_in_the_tower() -> None:
    contracts = tomllib.loads(tracked.text("pyproject.toml"))["tool"]["importlinter"]
    packages = {path.split("/")[0] for path in tracked.paths("/__init__.py")}
    rooms = {path.name for path in (tracked.ROOT / "slipway").iterdir() if path.is_symlink()}
    assert packages == {*contracts["root_packages"], *rooms}


def test_everything_is_imported_by_its_one_name() -> None:
    """From the checkout, `import jobs` works too, and would load every module a second time."""
    rooms = {path.name for path in (tracked.ROOT / "slipway").iterdir() if path.is_symlink()}
    assert not [
        f"{path}:{line} imports {package}"
        for path in tracked.paths(".py")
        for line, package in imported(tracked.nodes(path))
        if package in rooms
    ]


def test_each_heavy_package_is_imported_only_where_it_lives() -> None:
    assert not [line for path in tracked.paths(".py") for line in strangers(path, tracked.nodes(path))]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("jobs/words/x.py", "def late():\n    import boto3"),
        ("jobs/platforms/batch/request.py", "from boto3.session import Session"),
        ("jobs/cli/build.py", "import aws_cdk.aws_s3"),
        ("infra/stacks/x.py", "import moto"),
        ("tests/x.py", "import pickle"),
    ],
)
def test_a_stray_import_would_be_found(path: str, source: str) -> None:
    assert strangers(path, ast.walk(ast.parse(source)))
