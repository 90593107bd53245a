"""Whether a failed attempt is followed by another, as AWS Batch decides it (user guide, job retries)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOST_GONE = "Host EC2 (instance {instance}) terminated."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExit:
    """Tells how the main node's container ended; a field that is None was not reported."""

    status_reason: str
    exit_code: int | None
    reason: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


def is_retried(ending: ContainerExit, strategy: Mapping[str, Any], attempts_made: int) -> bool:
    if ending.succeeded or attempts_made >= strategy.get("attempts", 1):
        return False
    return _wants_retry(strategy.get("evaluateOnExit") or (), ending)


def _wants_retry(rules: Sequence[Mapping[str, str]], ending: ContainerExit) -> bool:
    """The first rule that matches decides; what matches none is tried again."""
    for rule in rules:
        if _matches(rule, ending):
            return rule["action"].lower() == "retry"
    return True


def _matches(rule: Mapping[str, str], ending: ContainerExit) -> bool:
    said = {
        "onExitCode": None if ending.exit_code is None else str(ending.exit_code),
        "onReason": ending.reason,
        "onStatusReason": ending.status_reason,
    }
    conditions = {member: pattern for member, pattern in rule.items() if member in said}
    return all(_fits(pattern, said[member] or "") for member, pattern in conditions.items())


def _fits(pattern: str, text: str) -> bool:
    """A star at the end stands for anything; case counts for nothing."""
    pattern, text = pattern.lower(), text.lower()
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern
