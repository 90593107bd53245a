"""A template made, changed and deleted through the providers alone: no events, no rollback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.cloudformation.resources.registry import provider
from slipway.yard.cloudformation.template import intrinsics, parameters, schemas
from slipway.yard.cloudformation.template.blueprint import Blueprint, StackIdentity, draw
from slipway.yard.cloudformation.template.parameters import YardLookups
from slipway.yard.cloudformation.template.references import Reference
from slipway.yard.cloudformation.template.template import load
from slipway.yard.endpoint import ACCOUNT
from tests.yard.cloudformation.resources.world import REGION, Made, new_context

PLACE = StackIdentity(
    region=REGION,
    account=ACCOUNT,
    stack_name="trial",
    stack_id=f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/trial/1",
)


@dataclass(slots=True)
class Deployed:
    made: dict[str, Made] = field(default_factory=dict)

    def deploy(self, text: str, given: Mapping[str, str] | None = None) -> None:
        """Make what is new and change in place what is there; nothing is replaced."""
        template, lookups = load(text), YardLookups(REGION)
        found = parameters.resolve(template, given or {}, {}, lookups)
        blueprint = draw(template, found, PLACE, lookups, imported=str)
        scope = blueprint.scope(lookups, self._value, str)
        for name, planned in blueprint.resources.items():
            properties = intrinsics.evaluate(dict(planned.declared.properties), scope)
            kind = planned.declared.type
            assert schemas.check(kind, properties) == ()
            self._put(name, kind, schemas.coerce(kind, properties))
        self._check_outputs(blueprint, scope)

    def delete(self) -> None:
        while self.made:
            self.made.popitem()[1].delete()

    def _put(self, name: str, kind: str, properties: Mapping[str, Any]) -> None:
        if name in self.made:
            if self.made[name].properties != properties:
                self.made[name].become(properties)
            return
        context, maker = new_context(name), provider(kind)
        self.made[name] = Made(maker, context, maker.create(context, properties), properties)

    def _value(self, reference: Reference) -> Any:
        made = self.made[reference.logical_id]
        return made.id if reference.attribute is None else made.attribute(reference.attribute)

    def _check_outputs(self, blueprint: Blueprint, scope: Any) -> None:
        for output in blueprint.template.section("Outputs").values():
            assert intrinsics.evaluate(output["Value"], scope)
