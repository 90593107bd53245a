"""Tells for each API call if the yard itself serves it, moto answers it, or it is refused.

A service is listed if the yard serves one of its calls or makes one of its resource types. What moto
implements is read from its source files, which is fast and starts none of its back ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from slipway.yard.services import pretending, registry

OWN, MOTO, REFUSED = "behavioural", "backed by moto", "refused"
_METHOD = re.compile(r"^    def ([a-z]\w*)\(\s*self", re.MULTILINE)
# Service in CloudFormation's types -> botocore's name, where that is not its lower case.
_SERVICE_OF = {
    "AutoScaling": "autoscaling",
    "CloudWatch": "cloudwatch",
    "ImageBuilder": "imagebuilder",
    "SecretsManager": "secretsmanager",
}
_NO_SERVICE = frozenset({"CDK"})
_FOLDERS = {"lambda": "awslambda"}  # botocore's name -> moto's folder


def services() -> tuple[str, ...]:
    """Return the listed services, by botocore's names."""
    from slipway.yard.cloudformation.resources.registry import TYPES

    made = {kind.split("::")[1] for kind in TYPES if kind.startswith("AWS::")} - _NO_SERVICE
    served = {*registry.SERVICES, *(service for service, _ in registry.OPERATIONS)}
    pretended = {service for service, _ in pretending.REASONS}
    return tuple(sorted({*served, *pretended, *(_SERVICE_OF.get(name, name.lower()) for name in made)}))


@lru_cache(maxsize=1)
def calls() -> Mapping[str, Mapping[str, str]]:
    """Return service -> operation -> fidelity, for every operation in AWS's model of the service."""
    return {service: _calls(service) for service in services()}


def summary() -> list[dict[str, object]]:
    """Return one row per service: the number of calls of each kind."""
    rows: list[dict[str, object]] = []
    for service, fidelities in calls().items():
        counts = {word: sum(one == word for one in fidelities.values()) for word in (OWN, MOTO, REFUSED)}
        rows.append({"service": service, **counts})
    return rows


def _calls(service: str) -> dict[str, str]:
    import moto
    from botocore.session import get_session

    folder = Path(moto.__file__).parent / _FOLDERS.get(service, service.replace("-", ""))
    sources = [*folder.glob("responses.py"), *folder.glob("responses/*.py")]
    names = (name for file in sources for name in _METHOD.findall(file.read_text("utf-8")))
    known = frozenset(name.replace("_", "") for name in names)
    served = _own(service)
    found = {}
    for name in get_session().get_service_model(service).operation_names:
        is_motos = service not in registry.SERVICES and name.lower() in known
        found[name] = OWN if name in served else MOTO if is_motos else REFUSED
    return {**found, **{name: REFUSED for of, name in pretending.REASONS if of == service}}


def _own(service: str) -> frozenset[str]:
    single = frozenset(name for of, name in registry.OPERATIONS if of == service)
    if service not in registry.SERVICES:
        return single
    module = import_module(registry.SERVICES[service])
    return single | frozenset(getattr(module, "OPERATIONS", None) or module.CALLS)
