"""Tells setuptools the version; all else is in pyproject.toml."""

from pathlib import Path
from runpy import run_path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
setup(version=run_path(str(ROOT / "slipway" / "_version.py"))["version_of_source"](ROOT))
