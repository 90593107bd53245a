"""Makes, changes, replaces or removes one resource through its provider, and writes its events.

A region's exports and the reasons of failed events are here, too.
"""

from __future__ import annotations

import logging
import secrets
import string
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from slipway.yard.cloudformation.engine.records import Operation, Record
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.cloudformation.resources import execution
from slipway.yard.cloudformation.resources.provider import Context, Provider, Resource
from slipway.yard.cloudformation.template import schemas
from slipway.yard.cloudformation.template.blueprint import Planned
from slipway.yard.cloudformation.template.parameters import Lookups
from slipway.yard.errors import CANCELLED, CUSTOM_RESOURCE_FAILED, ApiError, validation_error

CLEANUP_ATTEMPTS = 3
SUFFIX = string.ascii_uppercase + string.digits

Subject = tuple[str, str, str]  # logical id, physical id, type


class StepFailed(Exception):
    """Raised when a step failed; its event is already written."""

    def __init__(self, logical_id: str, verb: str, reason: str) -> None:
        super().__init__(reason)
        self.logical_id = logical_id
        self.verb = verb  # create, update or delete
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineServices:
    """Holds what an operation needs besides its stack."""

    account: str
    providers: Callable[[str], Provider]
    lookups: Lookups
    exports: ExportTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of one operation on one stack, of which deployments, rollbacks and teardowns are made."""

    stack: Stack
    operation: Operation
    surroundings: EngineServices
    cancelled: threading.Event = field(default_factory=threading.Event)  # set: waits for a resource end

    def create(self, planned: Planned, properties: Mapping[str, Any]) -> Record:
        declared = planned.declared
        name = default_name(self.stack.name, declared.logical_id)
        self._note((declared.logical_id, "", declared.type), "CREATE_IN_PROGRESS", properties=properties)
        return self._make(planned, properties, name, verb="create")

    def replace(self, old: Record, planned: Planned, properties: Mapping[str, Any]) -> Record:
        """Make a new resource; the old one is removed when the whole operation has succeeded."""
        reason = "Requested update requires the creation of a new physical resource; hence creating one."
        self._record(old, "UPDATE_IN_PROGRESS", reason, properties)
        identifier = schemas.primary_identifier(old.type)
        if identifier and all(
            key in properties and properties[key] == old.properties.get(key) for key in identifier
        ):
            named = "|".join(str(properties[key]) for key in identifier)
            refusal = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing."
                f" Rename {named} and update the stack again."
            )
            self._record(old, "UPDATE_FAILED", refusal)
            raise StepFailed(old.logical_id, "update", refusal)
        name = default_name(self.stack.name, old.logical_id)
        return self._make(planned, properties, name, verb="update")

    def update(self, old: Record, planned: Planned, properties: Mapping[str, Any]) -> Record:
        """Change the properties of the resource in place."""
        self._record(old, "UPDATE_IN_PROGRESS", None, properties)
        attempted = self.stack.dirty.get(old.logical_id, old.properties)
        provider = self.surroundings.providers(old.type)
        self.stack.dirty[old.logical_id] = properties
        with self._failing(subject_of(old), "update"):
            context = execution.begun(self._context(LogicalResource.of(old)), "update", properties)
            resource = provider.update(context, old.resource, attempted, properties)
        del self.stack.dirty[old.logical_id]
        updated = self._kept(planned, properties, resource, old.default_name)
        identity = updated.identity if resource.is_another else old.identity
        record = replace(updated, identity=identity, stack_tags=old.stack_tags)
        self._record(record, "UPDATE_COMPLETE")
        return record

    def refuse(self, planned: Planned, verb: str, reason: str) -> StepFailed:
        """Return the failure of a resource that never reached its provider, and write its event."""
        logical_id = planned.declared.logical_id
        record = self.stack.records.get(logical_id)
        physical_id = record.resource.physical_id if record else ""
        self._note((logical_id, physical_id, planned.declared.type), f"{verb.upper()}_FAILED", reason)
        return StepFailed(logical_id, verb, reason)

    def delete(self, record: Record) -> None:
        self._record(record, "DELETE_IN_PROGRESS")
        with self._failing(subject_of(record), "delete"):
            provider = self.surroundings.providers(record.type)
            context = execution.begun(self._context(LogicalResource.of(record)), "delete", record.properties)
            provider.delete(context, record.resource, record.properties)
        self._record(record, "DELETE_COMPLETE")

    def delete_or_leave(self, record: Record) -> bool:
        """Return True if the resource is gone after a few attempts; if not, leave it, as AWS does."""
        for _ in range(CLEANUP_ATTEMPTS):
            try:
                self.delete(record)
            except StepFailed:
                continue
            return True
        return False

    def skip(self, record: Record) -> None:
        """Leave the resource where it is and forget it."""
        self._record(record, "DELETE_SKIPPED")

    def _make(self, planned: Planned, properties: Mapping[str, Any], name: str, *, verb: str) -> Record:
        declared = planned.declared
        existing = identified(declared.type, properties)
        with self._failing((declared.logical_id, "", declared.type), verb, existing):
            provider = self.surroundings.providers(declared.type)
            made = self._context(LogicalResource(declared.logical_id, declared.type, name))
            resource = provider.create(execution.begun(made, "create", properties), properties)
        record = self._kept(planned, properties, resource, name)
        status = verb.upper()
        self._record(record, f"{status}_IN_PROGRESS", "Resource creation Initiated", properties)
        self._record(record, f"{status}_COMPLETE")
        return record

    def _kept(self, planned: Planned, properties: Mapping[str, Any], resource: Resource, name: str) -> Record:
        declared = planned.declared
        return Record(
            logical_id=declared.logical_id,
            type=declared.type,
            resource=resource,
            properties=properties,
            dependencies=planned.dependencies,
            deletion_policy=declared.deletion_policy,
            update_replace_policy=declared.update_replace_policy,
            default_name=name,
            stack_tags=self.stack.settings.tags,
        )

    def _context(self, resource: LogicalResource) -> Context:
        return replace(context_of(self.stack, self.surroundings, resource), cancelled=self.cancelled)

    @contextmanager
    def _failing(self, subject: Subject, verb: str, existing: str | None = None) -> Iterator[None]:
        """Fail the step for any exception: a stack's operation must end even if a provider has a bug."""
        try:
            yield
        except Exception as error:
            reason = handler_reason(error, existing=existing)
            self._note(subject, f"{verb.upper()}_FAILED", reason)
            raise StepFailed(subject[0], verb, reason) from error

    def _set_status(self, status: str, reason: str | None = None) -> None:
        self.stack.set_status(self.operation, status, reason)

    def _record(self, record: Record, status: str, reason: str | None = None, properties: Any = None) -> None:
        self._note(subject_of(record), status, reason, properties=properties)

    def _note(
        self, subject: Subject, status: str, reason: str | None = None, *, properties: Any = None
    ) -> None:
        self.stack.note(self.operation, subject, status, reason, properties)


class LogicalResource(NamedTuple):
    """A resource of a stack, which may not exist yet."""

    logical_id: str
    type: str
    default_name: str

    @classmethod
    def of(cls, record: Record) -> LogicalResource:
        return cls(record.logical_id, record.type, record.default_name)


def context_of(stack: Stack, surroundings: EngineServices, resource: LogicalResource) -> Context:
    return Context(
        region=stack.region,
        account=surroundings.account,
        stack_name=stack.name,
        stack_id=stack.stack_id,
        logical_id=resource.logical_id,
        default_name=resource.default_name,
        resource_type=resource.type,
        role_arn=stack.settings.role_arn or "",
    )


def subject_of(record: Record) -> Subject:
    return record.logical_id, record.resource.physical_id, record.type


def default_name(stack_name: str, logical_id: str) -> str:
    """Return CloudFormation's name for a resource that its template does not name."""
    return f"{stack_name}-{logical_id}-{''.join(secrets.choice(SUFFIX) for _ in range(12))}"


# Exports are unique by name in a region, and cannot change while another stack imports them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    name: str
    value: str
    stack_id: str
    stack_name: str


class ExportTable:
    def __init__(self) -> None:
        self._exports: dict[str, Export] = {}
        self._imports: dict[str, tuple[str, frozenset[str]]] = {}  # stack id -> (stack name, its imports)
        self._lock = threading.Lock()

    def all(self) -> tuple[Export, ...]:
        with self._lock:
            return tuple(self._exports[name] for name in sorted(self._exports))

    def look_up(self, name: str) -> str:
        """Return the value; raise ValidationError if no stack exports it."""
        with self._lock:
            if name not in self._exports:
                raise validation_error(f"No export named {name} found")
            return self._exports[name].value

    def importers(self, name: str) -> tuple[str, ...]:
        with self._lock:
            return self._importers(name)

    def hold(self, stack_id: str, stack_name: str, names: frozenset[str]) -> None:
        """Set what a stack imports; until it is released no other stack can change these exports."""
        with self._lock:
            if missing := sorted(names - set(self._exports)):
                raise validation_error(f"No export named {missing[0]} found")
            self._imports[stack_id] = (stack_name, names)

    def release(self, stack_id: str) -> None:
        with self._lock:
            self._imports.pop(stack_id, None)

    def publish(self, stack_id: str, stack_name: str, values: Mapping[str, str]) -> None:
        """Make these the stack's exports, all or none; raise ValidationError if one is taken or in use."""
        with self._lock:
            published = {name: one for name, one in self._exports.items() if one.stack_id == stack_id}
            for name in values:
                other = self._exports.get(name)
                if other is not None and other.stack_id != stack_id:
                    raise validation_error(
                        f"Export with name {name} is already exported by stack {other.stack_name}"
                    )
            for name, export in published.items():
                users = self._importers(name)
                if users and values.get(name) != export.value:
                    verb = "updated" if name in values else "deleted"
                    raise validation_error(
                        f"Export {name} cannot be {verb} as it is in use by {' and '.join(users)}"
                    )
            for name in published:
                del self._exports[name]
            for name, value in values.items():
                self._exports[name] = Export(name=name, value=value, stack_id=stack_id, stack_name=stack_name)

    def _importers(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(stack for stack, names in self._imports.values() if name in names))


# The reason of a failed resource in its event, in the form that AWS writes and the CDK reads.
LOG = logging.getLogger(__name__)
# (part of a service's error code, handler error code). The handler error codes are listed in
# https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-test-contract-errors.html
HANDLER_CODES = (
    ("Already", "AlreadyExists"),
    ("Duplicate", "AlreadyExists"),
    ("Conflict", "ResourceConflict"),
    ("NotFound", "NotFound"),
    ("NoSuch", "NotFound"),
    ("Throttl", "Throttling"),
    ("LimitExceeded", "ServiceLimitExceeded"),
    ("InsufficientInstanceCapacity", "NotStabilized"),
    ("AccessDenied", "AccessDenied"),
    ("Authorization", "AccessDenied"),  # of SNS
    ("Unauthorized", "AccessDenied"),  # of EC2
    ("Invalid", "InvalidRequest"),
    ("Validation", "InvalidRequest"),
    ("Client", "InvalidRequest"),
)


def handler_reason(error: Exception, *, existing: str | None = None) -> str:
    """Return the reason of a *_FAILED event; `existing` describes the resource if it already exists."""
    response: Any = getattr(error, "response", None)  # botocore's ClientError
    if isinstance(error, ApiError):
        code, message = error.code, error.message
    elif isinstance(response, dict) and "Error" in response:
        code, message = str(response["Error"].get("Code", "")), str(error)
    else:
        LOG.exception("a resource provider of the yard failed", exc_info=error)
        code, message = "InternalFailure", f"{type(error).__name__}: {error}"
    if code in (CUSTOM_RESOURCE_FAILED, CANCELLED):
        return message
    handler_code = next((word for part, word in HANDLER_CODES if part in code), "GeneralServiceException")
    if handler_code == "AlreadyExists" and existing:
        message = f"{existing} already exists."
    details = f"(RequestToken: {uuid.uuid4()}, HandlerErrorCode: {handler_code})"
    return f'Resource handler returned message: "{message}" {details}'


def identified(resource_type: str, properties: Mapping[str, Any]) -> str | None:
    """Describe the resource by its name in the template, in CloudFormation's words; None if it has none."""
    names = [properties.get(key) for key in schemas.primary_identifier(resource_type)]
    if not names or None in names:
        return None
    return f"Resource of type '{resource_type}' with identifier '{'|'.join(map(str, names))}'"


def failed(verb: str, names: list[str]) -> str:
    """Return the reason that a stack's status gives when resources failed."""
    return f"The following resource(s) failed to {verb}: [{', '.join(names)}]. "
