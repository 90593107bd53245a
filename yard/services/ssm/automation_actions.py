"""The actions of runbooks: waiting, calling AWS, and going on by what it answered."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.gateway import keys as gateway_keys
from slipway.yard.machines.settings import real_seconds
from slipway.yard.permissions import deployed
from slipway.yard.permissions.services import judge_service
from slipway.yard.permissions.sessions import RoleSession

_NAME = re.compile(r"\{\{\s*([A-Za-z0-9_.:]+)\s*\}\}")
_STEP_OF_PATH = re.compile(r"\.(\w+)|\[(\d+)\]")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_IN_SECONDS = (86400, 3600, 60, 1)

Clients = Callable[[str], Any]


class RunbookFailed(Exception):
    """A step cannot be carried out; the runbook ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Gives a step clients, and the word that its runbook was stopped."""

    clients: Clients
    stopped: threading.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookOutcome:
    outputs: Mapping[str, Any] = field(default_factory=dict)
    next_step: str | None = None


def clients(role: object, values: Mapping[str, Any], region: str) -> Clients:
    """Return clients by service, with the rights of the runbook's role, which has to trust SSM."""
    arn = str(resolved(role, values)) if role else ""
    keys = {"aws:SourceAccount": ACCOUNT}
    if arn and not judge_service("ssm.amazonaws.com", "sts:AssumeRole", arn, keys).is_allowed:
        raise RunbookFailed(f"The defined assume role is unable to be assumed: {arn}")
    found = deployed.role(arn) if arn else None
    if found is None:
        return lambda service: own_client(service, region)
    session = RoleSession(role_arn=found.arn, role_id=found.id, name="Automation")
    return lambda service: gateway_keys.client(session, service, region)


def resolved(value: object, values: Mapping[str, Any]) -> Any:
    """Replace {{ names }}; a text that is one name takes its value's type."""
    if isinstance(value, Mapping):
        return {key: resolved(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, values) for each in value]
    if not isinstance(value, str):
        return value
    whole = _NAME.fullmatch(value.strip())
    if whole:
        return _value(whole[1], values)
    return _NAME.sub(lambda found: str(_value(found[1], values)), value)


def _value(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values:
        raise RunbookFailed(f"there is no value for {name}")
    return values[name]


def _sleep(inputs: Mapping[str, Any], _step: Mapping[str, Any], around: Surroundings) -> RunbookOutcome:
    around.stopped.wait(real_seconds(seconds_of(str(inputs["Duration"]))))
    return RunbookOutcome()


def seconds_of(duration: str) -> float:
    """Read an ISO 8601 duration of days, hours, minutes and seconds."""
    found = _DURATION.fullmatch(duration)
    if not found or not any(found.groups()):
        raise RunbookFailed(f"{duration} is no ISO 8601 duration")
    parts = zip(found.groups(), _IN_SECONDS, strict=True)
    return float(sum(int(count or 0) * size for count, size in parts))


def _call(inputs: Mapping[str, Any], step: Mapping[str, Any], around: Surroundings) -> RunbookOutcome:
    from botocore.exceptions import BotoCoreError, ClientError

    given = {name: value for name, value in inputs.items() if name not in ("Service", "Api")}
    try:
        client = around.clients(inputs["Service"])
        operations = {api: method for method, api in client.meta.method_to_api_mapping.items()}
        method = operations.get(inputs["Api"], inputs["Api"])
        answer = getattr(client, method)(**given)
    except (AttributeError, BotoCoreError, ClientError) as error:
        raise RunbookFailed(f"{inputs['Service']}:{inputs['Api']}: {error}") from error
    outputs = {out["Name"]: _selected(out["Selector"], answer) for out in step.get("outputs") or ()}
    return RunbookOutcome(outputs=outputs)


def _selected(path: str, answer: Any) -> Any:
    """Follow a path such as $.jobs[0].status."""
    place = answer
    for name, index in _STEP_OF_PATH.findall(path.removeprefix("$")):
        try:
            place = place[name] if name else place[int(index)]
        except (KeyError, IndexError, TypeError) as error:
            raise RunbookFailed(f"the answer has nothing at {path}") from error
    return place


def _branch(inputs: Mapping[str, Any], _step: Mapping[str, Any], _around: Surroundings) -> RunbookOutcome:
    for choice in inputs["Choices"]:
        tests = [(test, choice[name]) for name, test in _TESTS.items() if name in choice]
        if len(tests) != 1:
            raise RunbookFailed(f"the yard knows one of {', '.join(_TESTS)} a choice, not {sorted(choice)}")
        ((test, wanted),) = tests
        if test(str(choice["Variable"]), str(wanted)):
            return RunbookOutcome(next_step=choice["NextStep"])
    return RunbookOutcome(next_step=inputs.get("Default"))


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "Contains": lambda value, wanted: wanted in value,
    "EndsWith": str.endswith,
    "EqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.lower(),
    "StartsWith": str.startswith,
    "StringEquals": lambda value, wanted: value == wanted,
}
ACTIONS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any], Surroundings], RunbookOutcome]] = {
    "aws:branch": _branch,
    "aws:executeAwsApi": _call,
    "aws:sleep": _sleep,
}
