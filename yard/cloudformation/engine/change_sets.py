"""A change set: what an execution would do, decided when it was created."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slipway.yard.cloudformation.engine.changes import Change
from slipway.yard.cloudformation.engine.records import Operation, StackSettings
from slipway.yard.cloudformation.template.blueprint import Blueprint
from slipway.yard.cloudformation.template.checks import PropertyProblem

NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
EARLY_VALIDATION = (
    "The following hook(s)/validation failed: [AWS::EarlyValidation::PropertyValidation]. To troubleshoot"
    " Early Validation errors, use the DescribeEvents API for detailed failure information."
)


@dataclass(slots=True, kw_only=True)
class ChangeSet:
    change_set_id: str
    name: str
    kind: str  # CREATE or UPDATE
    description: str | None
    created_at: datetime
    blueprint: Blueprint
    settings: StackSettings
    operation: Operation
    changes: tuple[Change, ...]
    problems: tuple[PropertyProblem, ...]
    reason: str | None = None
    execution_status: str = "AVAILABLE"

    @property
    def status(self) -> str:
        return "FAILED" if self.reason else "CREATE_COMPLETE"
