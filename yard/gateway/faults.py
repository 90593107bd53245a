"""Scripted faults: the yard fails a given call in a given way, a given number of times.

To add a kind: a line of FaultKind, and one of _ERRORS if it is an error. The functions for
clients are at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from slipway.yard.chaos import conditions, throttling
from slipway.yard.endpoint import Yard, control
from slipway.yard.errors import ApiError

ANY = "*"


class FaultKind(StrEnum):
    THROTTLE = "throttle"
    SERVER_ERROR = "server-error"
    DROP_RESPONSE = "drop-response"  # carried out, but the connection is closed without an answer
    INSUFFICIENT_CAPACITY = "insufficient-capacity"
    RESPOND = "respond"  # answers with these results, in order, instead of the service's


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Describes one rule. It strikes `times` times; None: until it is removed.

    `respond` gives each result once, and its last one `times` times.
    """

    service: str  # boto3's name
    operation: str  # AWS's name, or "*"
    kind: FaultKind
    times: int | None = 1
    body: Sequence[Mapping[str, Any]] = ()  # the results, for `respond`

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times is {self.times}; allowed are 1 or more, or null for no limit")
        if (self.kind is FaultKind.RESPOND) != bool(self.body):
            raise ValueError(
                f"kind '{self.kind}' with {len(self.body)} results in body; only 'respond' takes them"
            )

    def matches(self, service: str, operation: str) -> bool:
        return self.service == service and self.operation in (ANY, operation)

    @property
    def answers(self) -> int | None:
        """Return the number of calls that this rule strikes; None: no limit."""
        return None if self.times is None else self.times + max(len(self.body) - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault that strikes one call; `index` counts the calls that its rule struck before."""

    fault: Fault
    index: int

    @property
    def kind(self) -> FaultKind:
        return self.fault.kind


_rules: list[list[Any]] = []  # in this server: [Fault, number of calls struck]
_lock = threading.Lock()


def decode(rule: object) -> Fault:
    """Decode a rule and check it against AWS's names; raise ValueError if it is wrong."""
    from difflib import get_close_matches

    from botocore.exceptions import UnknownServiceError
    from moto.core.utils import get_service_model

    if not isinstance(rule, Mapping):
        raise ValueError(f"a rule is an object, not {type(rule).__name__}")
    if unknown := set(rule) - {"service", "operation", "kind", "times", "body"}:
        raise ValueError(f"unknown keys {sorted(unknown)}; allowed are service, operation, kind, times, body")
    kinds = ", ".join(FaultKind)
    if rule.get("kind") not in list(FaultKind):
        raise ValueError(f"kind is {rule.get('kind')!r}; allowed are {kinds}")
    fault = Fault(**{**rule, "kind": FaultKind(rule["kind"]), "operation": rule.get("operation", ANY)})
    try:
        known = get_service_model(fault.service).operation_names
    except UnknownServiceError as error:
        raise ValueError(f"there is no service '{fault.service}'; use boto3's name of a service") from error
    if fault.operation != ANY and fault.operation not in known:
        close = get_close_matches(fault.operation, known, n=3) or known[:3]
        raise ValueError(f"{fault.service} has no operation '{fault.operation}'; it has {', '.join(close)} …")
    return fault


def add_rule(fault: Fault) -> None:
    with _lock:
        _rules.append([fault, 0])


def clear_rules() -> None:
    with _lock:
        _rules.clear()


def listed() -> list[dict[str, Any]]:
    with _lock:
        return [asdict(fault) | {"struck": times} for fault, times in _rules]


def next_for(service: str, operation: str) -> Struck | None:
    """Return the fault that strikes this call, and count it; None if there is none."""
    with _lock:
        for rule in _rules:
            fault, times = rule
            if fault.matches(service, operation) and (fault.answers is None or times < fault.answers):
                rule[1] += 1
                return Struck(fault=fault, index=times)
    return None


def is_refused_by_script() -> bool:
    """Count a launch by a service of the yard; return True if a rule says that EC2 has no capacity."""
    struck = next_for("ec2", "RunInstances")
    return struck is not None and struck.kind is FaultKind.INSUFFICIENT_CAPACITY


def scripted_result(struck: Struck | None, service: str) -> Mapping[str, Any] | None:
    """Return the scripted answer or raise the fault's error; None: the service answers."""
    if struck is None or struck.kind is FaultKind.DROP_RESPONSE:
        return None  # pipeline.py closes the connection after the service has answered
    if struck.kind is FaultKind.RESPOND:
        return struck.fault.body[min(struck.index, len(struck.fault.body) - 1)]
    raise _ERRORS[struck.kind](service)


_ERRORS: Mapping[FaultKind, Callable[[str], ApiError]] = {
    FaultKind.THROTTLE: throttling.refusal,
    FaultKind.SERVER_ERROR: lambda _service: ApiError(
        "InternalFailure", "an internal error occurred (a scripted fault of the yard)", status=500
    ),
    FaultKind.INSUFFICIENT_CAPACITY: lambda _service: conditions.no_capacity("instance", "any"),
}


# The client's side.


def script(yard: Yard, fault: Fault) -> None:
    """Add a rule to this yard."""
    control(yard, "POST", "/faults", asdict(fault))


def scripted(yard: Yard) -> list[dict[str, Any]]:
    """List the rules of this yard, and how often each has struck."""
    found: list[dict[str, Any]] = control(yard, "GET", "/faults")
    return found


def unscript(yard: Yard) -> None:
    """Remove every rule from this yard."""
    control(yard, "DELETE", "/faults")
