"""Resource types that are made by calls to the yard's own API: most are one row of a table.

To add one: its create and delete calls, `describe` for its attributes, and a Setting for each property that
can change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from slipway.yard.cloudformation.resources.provider import Context, Properties, Resource
from slipway.yard.cloudformation.resources.scope import (
    Action,
    Expression,
    ResourceScope,
    input_shape,
    is_gone,
    pick,
    resolve,
    tolerating,
)
from slipway.yard.cloudformation.resources.shapes import like, lookup
from slipway.yard.errors import ApiError, validation_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One API call; if `shaped`, the resource's properties fill the parameters of the same name."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)  # property → parameter
    shaped: bool = False

    def __call__(self, scope: ResourceScope) -> dict[str, Any]:
        members = _members(scope, self.operation)
        named = {name: self.renames.get(name) or members[name.lower()] for name in self.takes(scope)}
        return scope.send(
            self.operation,
            **{to: scope.properties[name] for name, to in named.items() if to not in self.parameters},
            **resolve(self.parameters, scope),
        )

    def takes(self, scope: ResourceScope) -> frozenset[str]:
        """Return the properties that go into this call."""
        members = _members(scope, self.operation) if self.shaped else {}
        return frozenset(name for name in scope.properties if name.lower() in members or name in self.renames)


def call(operation: str, /, **parameters: Any) -> ApiCall:
    """Return a call with these parameters and no others."""
    return ApiCall(operation=operation, parameters=parameters)


def shaped(operation: str, /, *, renames: Mapping[str, str] | None = None, **parameters: Any) -> ApiCall:
    """Return a call that takes the resource's properties by name; the given parameters take precedence."""
    return ApiCall(operation=operation, parameters=parameters, renames=renames or {}, shaped=True)


def find(operation: str, path: str, /, *, where: str = "", **parameters: Any) -> Expression:
    """Return an expression: the part of the answer at `path`, or None when the resource is gone.

    With `where`, `path` leads to a list, and this field of the wanted item holds the resource's id.
    """

    def found(scope: ResourceScope) -> Any:
        answer = None
        with tolerating(is_gone):
            answer = pick(scope.send(operation, **resolve(parameters, scope)), path)
        return next((item for item in answer or () if item[where] == scope.id), None) if where else answer

    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Properties that can change in place, with the call that sets them on create, update and rollback."""

    properties: frozenset[str]
    put: Action
    remove: Action | None = None  # None: `put` also handles properties that were removed
    on_create: bool = True  # False: the create call has set it already

    def apply(self, scope: ResourceScope) -> None:
        present = any(scope.properties.get(name) is not None for name in self.properties)
        (self.put if present or self.remove is None else self.remove)(scope)


def setting(properties: str, *, put: Action, remove: Action | None = None) -> Setting:
    """Return a Setting: the call sets these space-separated properties."""
    return Setting(properties=frozenset(properties.split()), put=put, remove=remove)


def changeable(properties: str, *, put: Action, remove: Action | None = None) -> Setting:
    """Return a Setting for properties that the create call has set already."""
    return replace(setting(properties, put=put, remove=remove), on_create=False)


def mirrored(properties: str) -> dict[str, Expression]:
    """Return the reads of properties that the describe call returns under their own names."""
    return {name: _mirror(name) for name in properties.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResource:
    """A provider made of calls; see provider.py for what its four methods promise."""

    service: str
    create_call: ApiCall | Action = lambda _scope: {}  # its settings make it
    identity: Expression | None = None  # the physical id, once it is created; None: its name
    delete_call: Action
    describe: Expression | None = None
    attributes: Mapping[str, Expression] = field(default_factory=dict)
    name: Name | None = None  # how to name it when the template does not
    settings: tuple[Setting, ...] = ()
    reads: Mapping[str, Expression] = field(default_factory=dict)  # empty: drift is not checked
    accepts: str = ""  # properties that calls rename or ignore, separated by spaces

    def create(self, context: Context, properties: Properties) -> Resource:
        named = self.name.given(context, properties) if self.name else properties
        scope = ResourceScope(context=context, service=self.service, properties=named)
        self._refuse(self._unknown(scope, named), "emulate")
        scope = replace(scope, response=self.create_call(scope))
        if self.identity:
            identity = self.identity(scope)
        else:
            assert self.name, "a resource without an identity is identified by its name"
            identity = named[self.name.property]
        scope = replace(scope, id=str(identity))
        try:
            _apply((setting for setting in self.settings if setting.on_create), scope, frozenset(properties))
            return self._resource(scope)
        except BaseException:
            with suppress(ApiError):  # a half-made resource must not outlive the reported failure
                self.delete_call(scope)
            raise

    def update(self, context: Context, resource: Resource, old: Properties, new: Properties) -> Resource:
        changed = frozenset(name for name in {*old, *new} if old.get(name) != new.get(name))
        changeable = frozenset(name for setting in self.settings for name in setting.properties)
        self._refuse(changed - changeable, "change in place")
        scope = replace(self._scope(context, resource, new), before=old)
        try:
            _apply(self.settings, scope, changed)
        except ApiError:
            with suppress(ApiError):  # all or nothing: undo what was set before the failure
                _apply(self.settings, replace(scope, properties=old, before=new), changed)
            raise
        return self._resource(scope)

    def delete(self, context: Context, resource: Resource, properties: Properties) -> None:
        with tolerating(is_gone):
            self.delete_call(self._scope(context, resource, properties))

    def read(self, context: Context, resource: Resource, properties: Properties) -> Properties | None:
        if self.describe is None or not self.reads:
            raise NotImplementedError
        scope = self._scope(context, resource, properties)
        description = self.describe(scope)
        if not description:
            return None
        scope = replace(scope, live=description)
        read = {name: expression(scope) for name, expression in self.reads.items() if name in properties}
        present = {name: value for name, value in read.items() if value is not None}
        return {**{name: value for name, value in properties.items() if name not in read}, **present}

    def _scope(self, context: Context, resource: Resource, properties: Properties) -> ResourceScope:
        return ResourceScope(
            context=context, service=self.service, id=resource.physical_id, properties=properties
        )

    def _resource(self, scope: ResourceScope) -> Resource:
        scope = replace(scope, live=(self.describe(scope) or {}) if self.describe else {})
        attributes = {name: expression(scope) for name, expression in self.attributes.items()}
        return Resource(physical_id=scope.id, attributes=attributes)

    def _unknown(self, scope: ResourceScope, properties: Properties) -> frozenset[str]:
        taken: frozenset[str] = frozenset()
        if isinstance(self.create_call, ApiCall):
            tagged = {"Tags"} if "TagSpecifications" in self.create_call.parameters else set()
            taken = self.create_call.takes(scope) | tagged
        on_create = (setting for setting in self.settings if setting.on_create)
        later = frozenset(name for setting in on_create for name in setting.properties)
        return frozenset(properties) - taken - later - frozenset(self.accepts.split())

    def _refuse(self, unknown: frozenset[str], what: str) -> None:
        """Refuse properties that no call handles, rather than ignore them silently."""
        if unknown:
            names = ", ".join(sorted(unknown))
            raise validation_error(
                f"the yard does not {what} the {self.service} property {names}: leave it out"
            )


def _apply(settings: Iterable[Setting], scope: ResourceScope, changed: frozenset[str]) -> None:
    for setting in settings:
        if setting.properties & changed:
            setting.apply(scope)


def _mirror(name: str) -> Expression:
    def mirror(scope: ResourceScope) -> Any:
        found = lookup(scope.live, name)
        return None if found is None else like(scope.properties[name], found)

    return mirror


def _members(scope: ResourceScope, operation: str) -> dict[str, str]:
    shape = input_shape(scope.context.client(scope.service), operation)
    return {name.lower(): name for name in shape.members} if shape else {}


# Tags that change in place: one call sets those that were added or changed, another removes the rest.


def tags(
    tag: str = "tag_resource", untag: str = "untag_resource", *, of: str = "Tags", **which: Any
) -> Setting:
    """Return a Setting for the tags in property `of`; `which` names the resource in both calls."""

    def retag(scope: ResourceScope) -> None:
        added, removed = changes(scope, of)
        named = resolve(which, scope)
        if removed:
            scope.send(untag, **named, **{_member(scope, untag, which): removed})
        if added:
            scope.send(tag, **named, **{_member(scope, tag, which): added})

    return changeable(of, put=retag)


def ec2_tags() -> Setting:
    """Return a Setting for EC2's tags: EC2 removes tags by a list of tags, not of keys."""

    def retag(scope: ResourceScope) -> None:
        added, removed = changes(scope, "Tags")
        if removed:
            scope.send("delete_tags", Resources=[scope.id], Tags=[{"Key": key} for key in removed])
        if added:
            scope.send("create_tags", Resources=[scope.id], Tags=added)

    return changeable("Tags", put=retag)


def tag_specifications(kind: str) -> Expression:
    """Return the TagSpecifications with which EC2 creates a resource."""

    def specifications(scope: ResourceScope) -> list[dict[str, Any]] | None:
        listed = [{"Key": key, "Value": value} for key, value in as_map(scope.properties, "Tags").items()]
        return [{"ResourceType": kind, "Tags": listed}] if listed else None

    return specifications


def changes(scope: ResourceScope, of: str) -> tuple[dict[str, str], list[str]]:
    """Return the tags to set and the keys to remove."""
    old, new = as_map(scope.before, of), as_map(scope.properties, of)
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    return changed, [key for key in old if key not in new]


def as_map(properties: Properties, of: str) -> dict[str, str]:
    listed = properties.get(of) or {}
    if isinstance(listed, Mapping):
        return {key: str(value) for key, value in listed.items()}
    return {item["Key"]: str(item.get("Value", "")) for item in listed}


def _member(scope: ResourceScope, operation: str, which: Mapping[str, Any]) -> str:
    """Return this call's name for its tags or keys: tags, Tags, TagKeys, TagKeyList, …"""
    members = input_shape(scope.context.client(scope.service), operation).members
    return str(next(name for name in members if "tag" in name.lower() and name not in which))


# The names that CloudFormation generates for resources that a template does not name.


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Tells which property holds the name, and what the service allows in a name."""

    property: str
    limit: int
    lower: bool = False
    prefix: str = ""  # replaces the stack's name

    def given(self, context: Context, properties: Properties) -> Properties:
        if properties.get(self.property):
            return properties
        name = generated(context, self.limit, lower=self.lower)
        if self.prefix:
            name = f"{self.prefix}-{context.logical_id}-{name.rpartition('-')[2]}"
        return {**properties, self.property: name}


def generated(context: Context, limit: int, *, lower: bool = False) -> str:
    """Return the default name, cut to `limit` characters; the random suffix stays and makes it unique."""
    stem, _, suffix = context.default_name.rpartition("-")
    name = f"{stem[: limit - len(suffix) - 1].rstrip('-')}-{suffix}" if stem else suffix[:limit]
    return name.lower() if lower else name
