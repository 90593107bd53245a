"""The files that git tracks, as every test of this folder reads them.

All are kept once they are read: there are 2,000, and a smaller cache would forget each of them before
the next test asks for it.
"""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent  # shellcheck, hadolint and lint-imports are installed beside Python


@cache
def modes() -> dict[str, str]:
    """Path to git's file mode. A file that is deleted and not yet committed as such is left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    entries = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
    return {path: stage.split()[0] for stage, path in entries if (ROOT / path).is_file()}


def paths(*suffixes: str) -> list[str]:
    return [path for path in modes() if not suffixes or path.endswith(suffixes)]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def syntax(path: str) -> ast.Module:
    gc.disable()  # the collector would otherwise look at the millions of nodes again and again
    try:
        return ast.parse(text(path), filename=path)
    finally:
        gc.enable()


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree, cached: walking the tree takes longer than the tests."""
    return tuple(ast.walk(syntax(path)))


def has_shebang(path: str) -> bool:
    with (ROOT / path).open("rb") as file:
        return file.read(2) == b"#!"
