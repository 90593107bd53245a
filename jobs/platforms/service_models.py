"""Requests checked against botocore's models before they are sent, with no client and no network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any


def refuse_malformed(service: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Assert that a request is well-formed: users' mistakes are refused before, so this one is ours."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(dict(parameters), _shape(service, operation))
    assert not report.has_errors(), f"{service} {operation}: {report.generate_report()}"


@lru_cache(maxsize=8)
def _shape(service: str, operation: str) -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = ServiceModel(Loader().load_service_model(service, "service-2"), service)
    return model.operation_model(operation).input_shape
