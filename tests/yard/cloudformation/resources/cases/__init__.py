"""One realistic resource of every type that the yard knows."""

from __future__ import annotations

from tests.yard.cloudformation.resources.cases import (
    access,
    attached,
    batch,
    custom,
    image_builder,
    machines,
    management,
    network,
    pcs,
    sagemaker,
    services,
    storage,
    watching,
)
from tests.yard.cloudformation.resources.cases.case import Case, Cases

_SERVICES = (
    access,
    attached,
    services,
    batch,
    custom,
    image_builder,
    machines,
    management,
    network,
    pcs,
    sagemaker,
    storage,
    watching,
)

CASES: Cases = {type_name: case for service in _SERVICES for type_name, case in service.CASES.items()}

__all__ = ["CASES", "Case"]
