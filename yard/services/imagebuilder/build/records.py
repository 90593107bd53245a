"""One bake: what is to be built, and how far it is. The thread that runs it writes, the API reads."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

FINAL = frozenset({"AVAILABLE", "FAILED", "CANCELLED", "DELETED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredient:
    """A component of the recipe. `data` is None where AWS owns it: its document is not here."""

    arn: str
    name: str
    data: str | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BakePlan:
    arn: str  # of the image's build version
    region: str
    name: str  # of the recipe
    version: str  # 1.0.0/1
    parent: str
    instance_profile: str
    instance_type: str  # of the machine that it is built and tested on
    infrastructure: Mapping[str, Any]  # where its machines stand, and where their logs go
    execution_role: str  # empty: the service-linked one
    working_directory: str  # of every step
    ingredients: tuple[Ingredient, ...]
    distributions: tuple[Mapping[str, Any], ...]
    ami_tags: Mapping[str, str]  # of the recipe; a distribution adds its own
    runs_tests: bool
    log_group: str
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True, kw_only=True)
class StepRun:
    name: str
    action: str
    status: str = "PENDING"
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    id: str = field(default_factory=lambda: f"step-{uuid.uuid4()}")


@dataclass(slots=True, kw_only=True)
class WorkflowRun:
    name: str
    type: str  # BUILD, TEST or DISTRIBUTION
    steps: list[StepRun]
    status: str = "PENDING"
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    id: str = field(default_factory=lambda: f"wf-{uuid.uuid4()}")

    def count(self, status: str) -> int:
        return sum(step.status == status for step in self.steps)


@dataclass(slots=True, kw_only=True)
class Bake:
    plan: BakePlan
    status: str = "PENDING"
    reason: str = ""
    failure: Mapping[str, Any] | None = None
    workflows: list[WorkflowRun] = field(default_factory=list)
    amis: list[Mapping[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    def state(self) -> dict[str, Any]:
        words: dict[str, Any] = {"status": self.status}
        if self.reason:
            words["reason"] = self.reason[:1024]
        return words | ({"failureContext": dict(self.failure)} if self.failure else {})
