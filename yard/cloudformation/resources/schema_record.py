"""A type that is kept and nothing more; its schema says what its id and attributes look like.

recorded_types.py lists them; recorded_forms.py says what a schema leaves open.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Fidelity, Properties, Resource
from slipway.yard.cloudformation.resources.recorded import ResourceRecord, forget, keep, recall
from slipway.yard.cloudformation.resources.recorded_forms import FORMS
from slipway.yard.cloudformation.resources.scope import ResourceScope, resolve
from slipway.yard.cloudformation.template import schemas

NUMBERS = ("integer", "number")
NO_FORM: Mapping[str, Any] = {}
# What stands in an ARN for the type, where its name in small letters does not: patterns of others ask for it.
IDS = {"AWS::Cognito::UserPool": "{region}_{random}"}  # of the ids that others hold against a pattern
ARN_WORDS = {"AWS::SageMaker::StudioLifecycleConfig": "studio-lifecycle-config"}


def provider(kind: str) -> SchemaRecord:
    return SchemaRecord(type=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """A type that is kept and nothing more; its schema says what its id and attributes look like."""

    type: str
    fidelity: Fidelity = Fidelity.RECORDED

    def create(self, context: Context, properties: Properties) -> Resource:
        form = FORMS.get(self.type)
        if form is None:
            return self._keep(context, self._identity(context, properties), properties)
        named = form.name.given(context, properties) if form.name else properties
        fresh = ResourceScope(context=context, service="", id=secrets.token_hex(9)[:17], properties=named)
        scope = replace(fresh, id=str(form.identity(fresh)))
        return self._keep(context, scope.id, properties, resolve(form.attributes, scope))

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        self._record(context, resource, new)
        return resource

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        forget(context.region, self.type, resource.physical_id)

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        kept = recall(context.region, self.type, resource.physical_id)
        return kept.properties if kept else None

    def _keep(
        self, context: Context, physical_id: str, properties: Properties, known: Mapping[str, Any] = NO_FORM
    ) -> Resource:
        attributes = {
            path.replace("/", "."): _listed(path, properties) or self._attribute(context, physical_id, path)
            for path in schemas.read_only(self.type)
            if "*" not in path
        }
        made = Resource(physical_id=physical_id, attributes={**attributes, **known})
        self._record(context, made, properties)
        return made

    def _record(self, context: Context, made: Resource, properties: Properties) -> None:
        keep(
            ResourceRecord(
                region=context.region,
                type=self.type,
                physical_id=made.physical_id,
                properties=properties,
                attributes=made.attributes,
            )
        )

    def _identity(self, context: Context, properties: Properties) -> str:
        """The id that the service would make up, else the properties that name the resource."""
        parts = schemas.primary_identifier(self.type) or ("Id",)
        made_up = [part for part in parts if part in schemas.read_only(self.type)]
        if made_up:
            shape = IDS.get(self.type, "")
            fresh = shape.format(region=context.region, random=secrets.token_hex(5)[:9]) or _fresh(self.type)
            return str(self._attribute(context, fresh, made_up[0]))
        return "|".join(str(properties.get(part) or context.default_name) for part in parts)

    def _attribute(self, context: Context, physical_id: str, path: str) -> Any:
        name, service = path.rpartition("/")[2], self.type.split("::")[1].lower()
        if physical_id.startswith("arn:"):
            arn, own = physical_id, re.split("[:/]", physical_id)[-1]
        else:
            own = physical_id
            word = ARN_WORDS.get(self.type) or self.type.rpartition("::")[2].lower()
            arn = f"arn:aws:{service}:{context.region}:{context.account}:{word}/{physical_id}"
        kind = schemas.property_type(self.type, path)
        if kind in NUMBERS:
            return 0
        if kind == "boolean":
            return False
        if kind == "array":
            return []
        if kind == "object":
            return {}
        return arn if name.lower().endswith("arn") else own


def _listed(path: str, properties: Properties) -> list[Any]:
    """Return what a plural lists, such as ResourceArns, where the template gives a ResourceArn."""
    return [properties[path[:-1]]] if path.endswith("s") and path[:-1] in properties else []


def _fresh(kind: str) -> str:
    word = kind.rpartition("::")[2].lower()
    return f"{word[:12]}-{secrets.token_hex(9)[:17]}"
