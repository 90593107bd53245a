"""EventBridge's default bus: puts events of AWS's services, and delivers events to the targets of rules.

moto delivers to logs, queues and buses, but to no other target. To add a target: a row of TARGETS.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import going_on
from slipway.yard.moto_backends import moto_backend
from slipway.yard.permissions import deployed, keys
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.permissions.roles import judge_service
from slipway.yard.services.cloudwatch import evaluation
from slipway.yard.services.sns import delivery
from slipway.yard.services.sns.delivery import Publication, publish

log = logging.getLogger("yard.events")

_NAMESPACE = "AWS/Events"
_NOT_YOURS = {"ErrorCode": "NotAuthorizedForSource", "ErrorMessage": "Not authorized for the source."}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEvent:
    source: str  # "aws.batch"
    detail_type: str
    region: str
    resources: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


def emit(event: ServiceEvent) -> None:
    """Put an event of an AWS service. A failure is only logged: it must not affect the service."""
    with going_on(log, "event %s of %s was lost", event.detail_type, event.source):
        _deliver_ourselves()
        sent = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": event.detail_type,
            "source": event.source,
            "account": ACCOUNT,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": event.region,
            "resources": list(event.resources),
            "detail": dict(event.detail),
        }
        bus = moto_backend("events", event.region).describe_event_bus("default")
        for rule in list(bus.rules.values()):
            rule.send_to_targets(copy.deepcopy(sent))


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Answer PutEvents; refuse events in AWS's name."""
    _deliver_ourselves()
    entries = parameters["Entries"]
    allowed = [entry for entry in entries if not str(entry.get("Source", "")).startswith("aws.")]
    results = iter(
        moto_backend("events", region).put_events([dict(entry) for entry in allowed]) if allowed else []
    )
    answers = [next(results) if entry in allowed else _NOT_YOURS for entry in entries]
    return {"Entries": answers, "FailedEntryCount": sum("ErrorCode" in answer for answer in answers)}


@lru_cache(maxsize=1)
def _deliver_ourselves() -> None:
    """Patch moto's rules to send with _send, which leaves to moto the targets that moto supports."""
    from moto.events.models import Rule

    by_moto = Rule.send_to_targets

    def send(rule: Any, event: dict[str, Any], transform_input: bool = True) -> None:
        def one(target: Mapping[str, Any]) -> str | None:
            from moto.core.exceptions import ServiceException

            alone = copy.copy(rule)
            alone.targets = [target]
            given = copy.deepcopy(dict(event))
            if isinstance(given.get("time"), str):  # moto expects seconds, and writes the text itself
                given["time"] = datetime.fromisoformat(given["time"]).timestamp()
            given.setdefault("ingestion-time", given.get("time"))
            try:
                by_moto(alone, given, transform_input)
            except NotImplementedError:
                return f"the yard delivers no events to {str(target['Arn']).split(':')[2]}"
            except ServiceException as error:  # for example, the queue was deleted or is only recorded
                return str(error.message)
            return None

        _send(rule, event, one)

    Rule.send_to_targets = send


def _send(rule: Any, event: Mapping[str, Any], by_moto: Callable[[Mapping[str, Any]], str | None]) -> None:
    if rule.state != "ENABLED" or rule.scheduled_expression or not rule.event_pattern.matches_event(event):
        return
    for name in ("MatchedEvents", "TriggeredRules"):
        evaluation.report(rule.region_name, _NAMESPACE, name, {"RuleName": rule.name}, 1)
    for target in list(rule.targets):
        deliver = TARGETS.get(str(target["Arn"]).split(":")[2])
        problem = deliver(rule, target, event) if deliver else by_moto(target)
        name = "FailedInvocations" if problem else "Invocations"
        evaluation.report(rule.region_name, _NAMESPACE, name, {"RuleName": rule.name}, 1)
        if problem:
            delivery.lost(rule.arn, str(target["Arn"]), problem)
            keep_dead_letter(rule, target, event, problem)


# Targets to which the yard delivers. A target's function returns None, or why the event was refused.
# EventBridge does not retry what a policy refuses (user guide, "How EventBridge retries delivering events").
Target = Mapping[str, Any]
Event = Mapping[str, Any]

_VARIABLE = re.compile(r"<([A-Za-z0-9_.-]+)>")


def written(target: Target, event: Event) -> str:
    """Return the target's input: its constant, the event or a part of it, or the transformer's text."""
    if (constant := target.get("Input")) is not None:
        return str(constant)
    if path := target.get("InputPath"):
        return json.dumps(_at(path, event))
    if transformer := target.get("InputTransformer"):
        # Fill in the variables: as text within quotes, as JSON elsewhere.
        values = {name: _at(path, event) for name, path in (transformer.get("InputPathsMap") or {}).items()}

        def value(found: re.Match[str]) -> str:
            held = values.get(found[1])
            is_quoted = template.count('"', 0, found.start()) % 2 == 1
            if is_quoted:
                text = held if isinstance(held, str) else "" if held is None else json.dumps(held)
                return json.dumps(text)[1:-1]
            return json.dumps(held) if held is not None else ""

        template = str(transformer["InputTemplate"])
        return _VARIABLE.sub(value, template)
    return json.dumps(event)


def keep_dead_letter(rule: Any, target: Target, event: Event, problem: str) -> None:
    """Put the event into the target's dead-letter queue, if it has one."""
    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    attributes = {
        name: {"DataType": "String", "StringValue": value}
        for name, value in (("RULE_ARN", rule.arn), ("TARGET_ARN", target["Arn"]), ("ERROR_MESSAGE", problem))
    }
    _, _, _, region, _, name = queue.split(":")
    backend = moto_backend("sqs", region)
    if name in backend.queues:
        backend.send_message(name, json.dumps(event), message_attributes=attributes)


def _to_topic(rule: Any, target: Target, event: Event) -> str | None:
    text = written(target, event)
    return publish(Publication(service="events", source_arn=rule.arn, topic_arn=target["Arn"], message=text))


def _to_runbook(rule: Any, target: Target, event: Event) -> str | None:
    """Start a runbook of Systems Manager with the target's role."""
    from botocore.exceptions import ClientError

    definition, _, version = target["Arn"].partition(":automation-definition/")[2].partition(":")
    arn, source = target.get("RoleArn", ""), {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": rule.arn}
    role = deployed.role(arn) if arn else None
    if role is None or not judge_service("events.amazonaws.com", "sts:AssumeRole", arn, source).is_allowed:
        return f"events.amazonaws.com may not assume the role of the target: {arn or 'it has none'}"
    session = RoleSession(role_arn=role.arn, role_id=role.id, name="EventBridge")
    try:
        keys.client(session, "ssm", rule.region_name).start_automation_execution(
            DocumentName=definition,
            DocumentVersion=version or "$DEFAULT",
            Parameters=json.loads(written(target, event)),
        )
    except (ClientError, ValueError) as error:
        return str(error)
    return None


def _at(path: str, event: Event) -> Any:
    """Follow a path such as $.detail.jobName."""
    place: Any = event
    for name in path.removeprefix("$").strip(".").split("."):
        if name:
            place = place.get(name) if isinstance(place, Mapping) else None
    return place


TARGETS: Mapping[str, Callable[[Any, Target, Event], str | None]] = {
    "sns": _to_topic,
    "ssm": _to_runbook,
}
