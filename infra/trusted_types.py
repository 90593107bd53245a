"""Leaves out that the CDK looks at the type of every argument while it runs: mypy has looked at our calls.

An app of the user's own keeps it, for its calls are theirs.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module
from typing import Any


class _NoHints(dict[Any, Any]):
    """Answers for every function that its arguments may be anything, without reading its annotations."""

    def get(self, key: Any, default: Any = None) -> Any:
        return _ANYTHING


_ANYTHING: defaultdict[str, Any] = defaultdict(lambda: Any)


def trust_types() -> None:
    """Do so for the rest of this process, where this release of jsii has the two places for it."""
    checks = import_module("jsii._type_checking")
    instead = {"_resolved_check": lambda **_: None, "_type_hints_cache": _NoHints()}
    if all(hasattr(checks, name) for name in instead):
        for name, value in instead.items():
            setattr(checks, name, value)
