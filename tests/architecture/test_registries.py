"""Every kind of cluster is complete: all lists of kinds and all folders of parts name the same kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from slipway.infra.declare import types
from slipway.infra.declare.types import ClusterKind
from slipway.jobs.words.targets import KINDS
from tests.architecture import tracked
from tests.architecture.test_change_table import names_in, rows

# A table, type or class that names three or more kinds is a registry of kinds.
KINDS_IN_A_REGISTRY = 3
MOST_REGISTRIES = 10
NOT_REGISTRIES = {
    "infra/clusters.py": "holds our clusters, of whichever kinds",
    "infra/declare/checks/nodes.py": "names in a hint the kinds that the images of today are for",
}
TABLES = (ast.Dict, ast.Tuple, ast.List, ast.Set, ast.BinOp, ast.ClassDef)


def declared_kinds() -> dict[str, str]:
    """The classes of infra/declare/types.py that declare a cluster, by their kind."""
    classes = [thing for thing in vars(types).values() if isinstance(thing, type) and hasattr(thing, "kind")]
    return {thing.kind.value: thing.__name__ for thing in classes if isinstance(thing.kind, ClusterKind)}


def built_classes() -> set[str]:
    """The keys of BUILDERS, read and not imported: aws_cdk takes seconds to load."""
    for node in tracked.nodes("infra/build/clusters.py"):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "BUILDERS":
            assert isinstance(node.value, ast.Dict)
            return {ast.unparse(key) for key in node.value.keys if key}
    raise AssertionError("infra/build/clusters.py has no BUILDERS")


def test_every_kind_of_cluster_can_be_declared_built_and_submitted_to() -> None:
    kinds = {kind.value for kind in ClusterKind}
    declared = declared_kinds()
    assert set(declared) == kinds, (
        "each ClusterKind needs one class in infra/declare/types.py, and each class a kind"
    )
    assert built_classes() == set(declared.values()), "each class needs a row of BUILDERS"
    assert set(KINDS) == kinds, "each kind needs a target in jobs/words/targets.py"
    assert all(target.kind == kind for kind, target in KINDS.items())


def kinds_in(table: ast.AST) -> Iterator[str]:
    """The kinds that a piece of code names: by class, by member of ClusterKind, or by its text."""
    targets = {kind: target.__name__ for kind, target in KINDS.items()}
    names = {word: kind for kind, name in declared_kinds().items() for word in (name, kind, kind.upper())}
    names |= {name: kind for kind, name in targets.items()}
    for node in ast.walk(table):
        said = (
            node.id
            if isinstance(node, ast.Name)
            else node.attr
            if isinstance(node, ast.Attribute)
            else node.value
            if isinstance(node, ast.Constant)
            else None
        )
        if isinstance(said, str) and said in names:
            yield names[said]


def registries() -> set[str]:
    product = [path for path in tracked.paths(".py") if not path.startswith(("tests/", "scripts/"))]
    return {
        path
        for path in product
        for node in tracked.nodes(path)
        if isinstance(node, TABLES) and len(set(kinds_in(node))) >= KINDS_IN_A_REGISTRY
    }


def test_the_row_of_a_new_kind_names_every_file_where_kinds_are_registered() -> None:
    """A worked example: SageMaker is named in some forty files outside its own, for what only it does.

    Of these, nine have to know each kind there is.
    """
    (named,) = (names_in(touch)[0] for want, touch, _ in rows() if want == "a new cluster kind")
    files = {path for path in named if path.endswith(".py")}
    assert files == registries() - NOT_REGISTRIES.keys()
    assert len(files) <= MOST_REGISTRIES


def test_every_stack_and_every_pattern_has_a_user() -> None:
    used = {
        node.module
        for path in tracked.paths(".py")
        if path.startswith("infra/")
        for node in tracked.nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    parts = [
        path
        for path in tracked.paths(".py")
        if path.startswith(("infra/stacks/", "infra/patterns/")) and PurePath(path).name != "__init__.py"
    ]
    assert parts
    assert not [path for path in parts if f"slipway.{path.removesuffix('.py').replace('/', '.')}" not in used]
