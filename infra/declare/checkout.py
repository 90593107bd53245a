"""The folders of this checkout that templates are made from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

CHECKOUT = Path(str(files("slipway"))).resolve().parent
CONTAINERS = CHECKOUT / "containers"
