"""A kind of cluster is whole or not there: each list of kinds and each folder of parts names the others."""

from __future__ import annotations

import ast
from pathlib import PurePath

from slipway.infra.declare import types
from slipway.infra.declare.types import ClusterKind
from slipway.jobs.words.targets import KINDS
from tests.architecture import tracked


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
