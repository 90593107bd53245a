"""A template that every rule passes, and for each rule what it does not."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.infra.verify.rule_templates import machines, surroundings
from tests.infra.verify.rule_templates.names import GONE, BadRow, Path

GOOD: Mapping[str, Any] = {"Resources": {**surroundings.GOOD, **machines.GOOD}}
BAD: tuple[BadRow, ...] = (*surroundings.BAD, *machines.BAD)


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
