"""A realistic resource, and a change that must not replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.yard.cloudformation.resources.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    properties: Mapping[str, Any]
    change: Mapping[str, Any] = field(default_factory=dict)  # empty: nothing of it can change in place

    def changed(self, **change: Any) -> Case:
        return replace(self, change=change)


def case(**properties: Any) -> Case:
    return Case(properties=properties)


Cases = Mapping[str, Callable[[World], Case]]  # by the resource's type

TAGS = [{"Key": "project", "Value": "slipway"}]
OTHER_TAGS = [{"Key": "project", "Value": "other"}, {"Key": "owner", "Value": "you"}]
TAG_MAP = {"project": "slipway"}
OTHER_TAG_MAP = {"project": "other", "owner": "you"}
