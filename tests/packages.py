"""Asks for a package without importing it: each worker imports all tests, and some packages take seconds."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def require(package: str, reason: str = "") -> None:
    """Skip the calling module if the package is not installed, as pytest.importorskip does."""
    if find_spec(package) is None:
        pytest.skip(reason or f"could not import '{package}'", allow_module_level=True)
