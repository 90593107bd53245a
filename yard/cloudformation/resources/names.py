"""The names that CloudFormation gives to what a template leaves unnamed."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.yard.cloudformation.resources.provider import Context, Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Tells which property is the name, and what its service allows in one."""

    property: str
    limit: int
    lower: bool = False
    prefix: str = ""  # in place of the stack's name

    def given(self, context: Context, properties: Properties) -> Properties:
        if properties.get(self.property):
            return properties
        name = generated(context, self.limit, lower=self.lower)
        if self.prefix:
            name = f"{self.prefix}-{context.logical_id}-{name.rpartition('-')[2]}"
        return {**properties, self.property: name}


def generated(context: Context, limit: int, *, lower: bool = False) -> str:
    """The default name, cut to `limit` characters without its random suffix, which makes it the only one."""
    stem, _, suffix = context.default_name.rpartition("-")
    name = f"{stem[: limit - len(suffix) - 1].rstrip('-')}-{suffix}" if stem else suffix[:limit]
    return name.lower() if lower else name
