"""Chooses what turns text into rows: the compiled core where it can be had, else Python."""

from __future__ import annotations

from collections.abc import Callable

from slipway.containers.data.tokens.engine import TokenEngine
from slipway.containers.data.tokens.settings import TokenSettings


def best_engine() -> tuple[Callable[[TokenSettings], TokenEngine], str]:
    """Return the fastest engine of this machine, and a line saying why it is not the compiled one, if so."""
    from slipway.containers.data.tokens.compiled import CannotCompile, library
    from slipway.containers.data.tokens.engine_native import NativeEngine
    from slipway.containers.data.tokens.engine_python import PythonEngine

    try:
        library()
    except CannotCompile as error:
        return PythonEngine, f"{error}; Python makes the same rows about 50 times slower"
    return NativeEngine, ""
