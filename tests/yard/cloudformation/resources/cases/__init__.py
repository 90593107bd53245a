"""A realistic resource of every type that the yard makes; test_registry.py tries recorded types."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases import custom, machines, networks, services
from tests.yard.cloudformation.resources.cases.case import Case, Cases

CASES: Cases = {**networks.CASES, **machines.CASES, **services.CASES, **custom.CASES}

__all__ = ["CASES", "Case"]
