"""Stacks only compose: decisions and derived values are in declarations and patterns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.types import BatchCluster, MpiCluster

ROOT = Path(__file__).parents[3]
DECLARED = {field.name for kind in (BatchCluster, MpiCluster, MachineImage) for field in fields(kind)}


def nodes(folder: str) -> Iterator[tuple[str, ast.AST]]:
    for path in sorted((ROOT / "infra" / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.name, node


def test_a_stack_contains_no_condition() -> None:
    conditions = (ast.If, ast.IfExp, ast.Match, ast.While)
    assert not [f"{name}:{node.lineno}" for name, node in nodes("stacks") if isinstance(node, conditions)]


def test_a_stack_takes_its_declaration_and_no_copy_of_a_setting() -> None:
    copied = [
        f"{name}: {kind.name} takes {given.arg}"
        for name, kind in nodes("stacks")
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for given in method.args.kwonlyargs
        if given.arg in DECLARED - {"image"}
        or (given.annotation and ast.unparse(given.annotation) in ("str", "int", "bool"))
    ]
    assert not copied
