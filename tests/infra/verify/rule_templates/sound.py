"""A template that every rule passes, and for each rule what it does not. A new subject is one of SUBJECTS."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates import (
    access,
    bakeries,
    batch,
    delivery,
    network,
    nodes,
    pcs,
    sagemaker,
    storage,
)
from tests.infra.verify.rule_templates.names import GONE, BadRow, Path

SUBJECTS = (access, bakeries, batch, delivery, network, nodes, pcs, sagemaker, storage)

GOOD: Mapping[str, Any] = {
    "Resources": {name: resource for subject in SUBJECTS for name, resource in subject.GOOD.items()}
}
BAD: tuple[BadRow, ...] = tuple(row for subject in SUBJECTS for row in subject.BAD)


def changed(resource_type: str, path: Path, value: object) -> dict[str, Any]:
    """Return GOOD with one thing wrong."""
    template: dict[str, Any] = copy.deepcopy(dict(GOOD))
    (resource,) = [each for each in template["Resources"].values() if each["Type"] == resource_type]
    if path == ("<type>",):
        resource["Type"] = value
        return template
    if path == ("<UpdatePolicy>",):
        resource["UpdatePolicy"] = value
        return template
    place: Any = resource["Properties"]
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return template
