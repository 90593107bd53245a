"""Keeps the stacks of every region and runs operations on them in threads, one at a time per stack."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.cloudformation.engine.deployment import Deployment
from slipway.yard.cloudformation.engine.records import Operation, StackSettings
from slipway.yard.cloudformation.engine.stack import Stack
from slipway.yard.cloudformation.engine.steps import EngineServices, ExportTable
from slipway.yard.cloudformation.resources.provider import Provider
from slipway.yard.cloudformation.template.blueprint import Blueprint
from slipway.yard.cloudformation.template.parameters import Lookups
from slipway.yard.errors import ApiError, validation_error

LOG = logging.getLogger(__name__)
UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
RESUMABLE = ("CREATE_FAILED", "UPDATE_FAILED")  # an update without rollback may go on from here


@dataclass(slots=True, kw_only=True)
class Region:
    stacks: list[Stack] = field(default_factory=list)  # deleted ones too, as AWS lists them
    exports: ExportTable = field(default_factory=ExportTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRequest:
    """One request to CloudFormation."""

    engine: StackEngine
    region: str
    parameters: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        value = self.parameters.get(name)
        return default if value is None else value

    def operation(self, kind: str) -> Operation:
        return Operation(kind=kind, token=self.get("ClientRequestToken") or self.get("ClientToken"))

    @property
    def surroundings(self) -> EngineServices:
        return self.engine.surroundings(self.region)

    def stack(self, message: str = "Stack [{}] does not exist") -> Stack:
        """Return the stack that the request names; if there is none, raise ValidationError with `message`."""
        name = str(self.get("StackName", ""))
        found = self.engine.find(self.region, name)
        if found is None:
            raise validation_error(message.format(name))
        return found


class StackEngine:
    """Keeps all stacks; an answer waits up to `patience_seconds` for its operation to end.

    The CDK polls only every five seconds, so a short wait spares it that pause after a quick operation.
    """

    def __init__(
        self,
        *,
        providers: Callable[[str], Provider],
        lookups: Callable[[str], Lookups],
        account: str,
        patience_seconds: float = 0.0,
    ) -> None:
        self.account = account
        self._providers = providers
        self._lookups = lookups
        self._patience_seconds = patience_seconds
        self._regions: dict[str, Region] = {}
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], dict[str, Any]] = {}

    def region(self, name: str) -> Region:
        with self._lock:
            return self._regions.setdefault(name, Region())

    def surroundings(self, region: str) -> EngineServices:
        return EngineServices(
            account=self.account,
            providers=self._providers,
            lookups=self._lookups(region),
            exports=self.region(region).exports,
        )

    def stacks(self, region: str) -> tuple[Stack, ...]:
        """Return the region's stacks, newest first."""
        stacks = self.region(region).stacks
        with self._lock:
            return tuple(reversed(stacks))

    def find(self, region: str, name_or_id: str) -> Stack | None:
        """Return the stack, if any; a deleted stack is found by its id only."""
        for stack in self.stacks(region):
            if stack.stack_id == name_or_id or (stack.name == name_or_id and not stack.is_gone):
                return stack
        return None

    def new_stack(self, region: str, name: str, status: str) -> Stack:
        """Return a stack that is not registered yet, so nobody else sees it."""
        stack_id = f"arn:aws:cloudformation:{region}:{self.account}:stack/{name}/{uuid.uuid4()}"
        return Stack(name=name, stack_id=stack_id, region=region, created_at=datetime.now(UTC), status=status)

    def register(self, stack: Stack) -> None:
        """Let others see the stack; raise AlreadyExistsException if its name is taken."""
        stacks = self.region(stack.region).stacks
        with self._lock:
            if any(other.name == stack.name and not other.is_gone for other in stacks):
                raise ApiError("AlreadyExistsException", f"Stack [{stack.name}] already exists")
            stacks.append(stack)

    def deploy(
        self, stack: Stack, blueprint: Blueprint, settings: StackSettings, operation: Operation
    ) -> None:
        """Begin an update if the stack's status allows one, else a create. The caller holds the lock."""
        surroundings = self.surroundings(stack.region)
        verb = "UPDATE" if stack.status in (*UPDATABLE, *RESUMABLE) else "CREATE"
        before = stack.blueprint.imports if stack.blueprint else frozenset()
        surroundings.exports.hold(stack.stack_id, stack.name, before | blueprint.imports)
        stack.begin()
        stack.blueprint, stack.settings = blueprint, settings
        stack.updated_at = datetime.now(UTC) if verb == "UPDATE" else None
        deployment = Deployment(
            stack=stack,
            operation=operation,
            surroundings=surroundings,
            cancelled=stack.cancelled,
            blueprint=blueprint,
            verb=verb,
        )
        stack.set_status(operation, f"{verb}_IN_PROGRESS", "User Initiated")
        self.start(stack, operation, deployment.run)

    def start(self, stack: Stack, operation: Operation, work: Callable[[], None]) -> None:
        """Run the work in a thread, after an operation that it cancels. The caller holds the stack's lock."""
        before = stack.worker

        def run() -> None:
            try:
                if before is not None:
                    before.join()
                work()
            except Exception as error:  # a bug of the yard ends the operation, too
                LOG.exception("operation %s on stack %s broke", operation.kind, stack.name)
                # A stack that remained in progress could be neither updated nor deleted.
                prefix = stack.status.removesuffix("_IN_PROGRESS").removesuffix("_COMPLETE_CLEANUP")
                stack.set_status(operation, f"{prefix}_FAILED", f"Internal failure of the yard: {error!r}")

        stack.worker = threading.Thread(target=run, name=f"{operation.kind}-{stack.name}", daemon=True)
        stack.worker.start()

    def wait(self, stack: Stack) -> None:
        """Give the stack's operation a moment to end. The caller holds no lock."""
        if stack.worker is not None:
            stack.worker.join(self._patience_seconds)

    def remembered(self, key: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the first answer to a repeated request token: a repeated request changes nothing."""
        with self._lock:
            return self._answers.get(key)

    def remember(self, key: tuple[str, ...], answer: dict[str, Any]) -> None:
        with self._lock:
            self._answers[key] = answer


def refuse_unless_updatable(stack: Stack, *, disable_rollback: bool) -> None:
    """Raise ValidationError for a stack whose state allows no update now."""
    if stack.status in UPDATABLE:
        return
    if stack.status not in RESUMABLE:
        raise validation_error(f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
    if not disable_rollback:
        raise validation_error(
            f"This stack is currently in a non-terminal [{stack.status}] state. To update the stack from this"
            " state, please use the disable-rollback parameter with update-stack API. To rollback to the last"
            " known good state, use the rollback-stack API"
        )
