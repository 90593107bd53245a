"""SSM's Automation: runs runbooks whose steps call AWS. To add an action: a row of ACTIONS.

Schema: Systems Manager user guide, "Systems Manager Automation actions reference". Steps run with the
credentials of the runbook's role, or with those of the caller.
"""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.errors import ApiError, with_texts
from slipway.yard.machines.settings import real_seconds
from slipway.yard.permissions import deployed, keys
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.permissions.roles import judge_service
from slipway.yard.services.ssm import documents

# The actions of runbooks: wait, call AWS, and branch on its answer.
_NAME = re.compile(r"\{\{\s*([A-Za-z0-9_.:]+)\s*\}\}")
_STEP_OF_PATH = re.compile(r"\.(\w+)|\[(\d+)\]")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")

Clients = Callable[[str], Any]


class RunbookFailed(Exception):
    """Ends the runbook: a step failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Gives a step its clients, and the event that its runbook was stopped."""

    clients: Clients
    stopped: threading.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookOutcome:
    outputs: Mapping[str, Any] = field(default_factory=dict)
    next_step: str | None = None


def clients(role: object, values: Mapping[str, Any], region: str) -> Clients:
    """Return a function for clients with the rights of the runbook's role, which must trust SSM."""
    arn = str(resolved(role, values)) if role else ""
    facts = {"aws:SourceAccount": ACCOUNT}
    if arn and not judge_service("ssm.amazonaws.com", "sts:AssumeRole", arn, facts).is_allowed:
        raise RunbookFailed(f"The defined assume role is unable to be assumed: {arn}")
    found = deployed.role(arn) if arn else None
    if found is None:
        return lambda service: own_client(service, region)
    session = RoleSession(role_arn=found.arn, role_id=found.id, name="Automation")
    return lambda service: keys.client(session, service, region)


def resolved(value: object, values: Mapping[str, Any]) -> Any:
    """Replace {{ names }}; a string that is only one name becomes its value, with its type."""

    def of(text: str) -> Any:
        if whole := _NAME.fullmatch(text.strip()):
            return _value(whole[1], values)
        return _NAME.sub(lambda found: str(_value(found[1], values)), text)

    return with_texts(value, of)


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
    parts = zip(found.groups(), (86400, 3600, 60, 1), strict=True)
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
            raise RunbookFailed(
                f"a choice has {sorted(choice)}; the yard supports one of {', '.join(_TESTS)} in each"
            )
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


log = logging.getLogger("yard.automation")

Parameters = Mapping[str, Any]

IN_PROGRESS, SUCCESS, FAILED, CANCELLED = "InProgress", "Success", "Failed", "Cancelled"


@dataclass(slots=True, kw_only=True)
class Execution:
    """One run of a runbook."""

    region: str
    document: str
    version: str
    content: Mapping[str, Any]
    given: Mapping[str, list[str]]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = IN_PROGRESS
    failure: str = ""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    steps: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)  # values of the runbook's {{ names }}
    stopped: threading.Event = field(default_factory=threading.Event)


_executions: dict[str, Execution] = {}
_lock = threading.RLock()


def reset() -> None:
    with _lock:
        for execution in _executions.values():
            execution.stopped.set()
        _executions.clear()


def _start(parameters: Parameters, region: str) -> dict[str, Any]:
    name = parameters["DocumentName"].rpartition("/")[2]
    found = documents.deployed(name, parameters.get("DocumentVersion"), region)
    if found is None:
        message = f"Automation definition {name} was not found."
        raise ApiError("AutomationDefinitionNotFoundException", message)
    version, content = found
    given = {key: list(value) for key, value in (parameters.get("Parameters") or {}).items()}
    execution = Execution(region=region, document=name, version=version, content=content, given=given)
    try:
        execution.values = documents.checked_values(content.get("parameters") or {}, given)
    except ApiError as error:
        raise ApiError("InvalidAutomationExecutionParametersException", error.message) from None
    with _lock:
        _executions[execution.id] = execution
    threading.Thread(target=_run, args=(execution,), name=f"automation {name}", daemon=True).start()
    return {"AutomationExecutionId": execution.id}


def _run(execution: Execution) -> None:
    try:
        client = clients(execution.content.get("assumeRole"), execution.values, execution.region)
        steps = {step["name"]: step for step in execution.content["mainSteps"]}
        order = list(steps)
        name: str | None = order[0]
        while name is not None and not execution.stopped.is_set():
            step = steps[name]
            outcome = _run_step(execution, step, client)
            following = order[order.index(name) + 1 :]
            name = outcome.next_step or (None if step.get("isEnd") else next(iter(following), None))
        _end(execution, CANCELLED if execution.stopped.is_set() else SUCCESS)
    except RunbookFailed as error:
        _end(execution, FAILED, str(error))
    except Exception as error:  # whatever a step raises fails the automation
        log.exception("automation %s crashed", execution.id)
        _end(execution, FAILED, f"{type(error).__name__}: {error}")


def _end(execution: Execution, status: str, failure: str = "") -> None:
    with _lock:
        execution.status, execution.failure = status, failure


def _run_step(execution: Execution, step: Mapping[str, Any], client: Clients) -> RunbookOutcome:
    name, action = step["name"], step["action"]
    shown = {"StepName": name, "Action": action, "StepStatus": IN_PROGRESS}
    execution.steps.append(shown)
    run = ACTIONS.get(action)
    try:
        if run is None:
            raise RunbookFailed(f"the yard does not support the action {action}")
        inputs = resolved(step.get("inputs") or {}, execution.values)
        outcome = run(inputs, step, Surroundings(clients=client, stopped=execution.stopped))
    except RunbookFailed as error:
        shown.update(StepStatus=FAILED, FailureMessage=str(error))
        raise RunbookFailed(f"Step {name} failed: {error}") from error
    execution.values.update({f"{name}.{key}": value for key, value in outcome.outputs.items()})
    shown["StepStatus"] = SUCCESS
    return outcome


def _get(parameters: Parameters, region: str) -> dict[str, Any]:
    execution = _find(parameters, region)
    return {"AutomationExecution": {**_shown(execution), "StepExecutions": list(execution.steps)}}


def _list(_parameters: Parameters, region: str) -> dict[str, Any]:
    """List the executions, the newest first."""
    with _lock:
        found = [
            execution for execution in reversed(list(_executions.values())) if execution.region == region
        ]
    return {"AutomationExecutionMetadataList": [_shown(each) for each in found]}


def _shown(execution: Execution) -> dict[str, Any]:
    return {
        "AutomationExecutionId": execution.id,
        "DocumentName": execution.document,
        "DocumentVersion": execution.version,
        "AutomationExecutionStatus": execution.status,
        "ExecutionStartTime": execution.started_at,
        "Parameters": dict(execution.given),
        "FailureMessage": execution.failure or None,
    }


def _stop(parameters: Parameters, region: str) -> dict[str, Any]:
    _find(parameters, region).stopped.set()
    return {}


def _find(parameters: Parameters, region: str) -> Execution:
    execution = _executions.get(parameters["AutomationExecutionId"])
    if execution is None or execution.region != region:
        raise ApiError("AutomationExecutionNotFoundException", "Automation execution was not found.")
    return execution


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {
    "DescribeAutomationExecutions": _list,
    "GetAutomationExecution": _get,
    "StartAutomationExecution": _start,
    "StopAutomationExecution": _stop,
}
