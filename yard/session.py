"""Points this process at the yard: a notebook has no shell for `eval "$(slipway yard env)"`."""

from __future__ import annotations

import os

from slipway.yard import process
from slipway.yard.environment import exported, unset


def use_yard() -> str:
    """Start the yard unless it is up, send this process's AWS calls to it, and return its endpoint."""
    yard = process.up().state
    for name in unset(os.environ):
        os.environ.pop(name, None)
    os.environ.update(exported(yard, os.environ))
    return yard.endpoint
