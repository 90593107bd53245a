"""Stops the CDK from checking the type of every argument at run time: mypy has checked our calls.

An app of the user's own keeps these checks, for its own calls.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from typing import Any


class _NoHints(dict[Any, Any]):
    """Tells jsii for every function that its arguments may be anything, without reading its annotations."""

    def get(self, key: Any, default: Any = None) -> Any:
        return _ANYTHING


_ANYTHING: defaultdict[str, Any] = defaultdict(lambda: Any)


def trust_types() -> None:
    """Turn the checks off for the rest of this process, if this release of jsii has the two hooks for it."""
    checks = import_module("jsii._type_checking")
    instead = {"_resolved_check": lambda **_: None, "_type_hints_cache": _NoHints()}
    if all(hasattr(checks, name) for name in instead):
        for name, value in instead.items():
            setattr(checks, name, value)
