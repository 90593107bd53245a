"""The component documents of infra/components, as texts, and what reaches them besides their locks.

Nothing here understands YAML: declarations are checked where only the standard library is. What the documents
say, infra/verify/rules/bakeries.py looks at in the templates.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from slipway.infra.declare.checks.components import REFERENCE

COMPONENTS = Path(__file__).parents[1] / "components"
# Of the zip that a stack uploads for components that install this project.
PAYLOAD_PARAMETERS = frozenset({"PayloadSource", "PayloadSha256"})


def component_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in COMPONENTS.glob("*.yaml")))


@lru_cache(maxsize=64)
def read_component(name: str) -> str:
    return (COMPONENTS / f"{name}.yaml").read_text(encoding="utf-8")


def asked_parameters(name: str) -> tuple[str, ...]:
    """Return each parameter that the component refers to, once."""
    return tuple(dict.fromkeys(REFERENCE.findall(read_component(name))))
