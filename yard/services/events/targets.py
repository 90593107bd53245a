"""Targets of EventBridge rules that the yard delivers to; a further one is a row of TARGETS.

A target answers None, or why it was refused. What a policy refuses, EventBridge does not try again
(EventBridge user guide, "How EventBridge retries delivering events").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT, own_client
from slipway.yard.permissions.services import judge_service
from slipway.yard.services.sns.delivery import Publication, publish

Target = Mapping[str, Any]
Event = Mapping[str, Any]

_VARIABLE = re.compile(r"<([A-Za-z0-9_.-]+)>")


def written(target: Target, event: Event) -> str:
    """Return what the target gets: its constant, the event or a part of it, or the transformer's text."""
    if (constant := target.get("Input")) is not None:
        return str(constant)
    if path := target.get("InputPath"):
        return json.dumps(_at(path, event))
    if transformer := target.get("InputTransformer"):
        return _transformed(transformer, event)
    return json.dumps(event)


def keep_dead_letter(rule: Any, target: Target, event: Event, problem: str) -> None:
    """Put the event into the target's dead-letter queue, if it has one."""
    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    from moto.sqs.models import sqs_backends

    attributes = {
        name: {"DataType": "String", "StringValue": value}
        for name, value in (("RULE_ARN", rule.arn), ("TARGET_ARN", target["Arn"]), ("ERROR_MESSAGE", problem))
    }
    _, _, _, region, _, name = queue.split(":")
    backend = sqs_backends[ACCOUNT][region]
    if name in backend.queues:
        backend.send_message(name, json.dumps(event), message_attributes=attributes)


def _to_topic(rule: Any, target: Target, event: Event) -> str | None:
    return publish(
        Publication(
            service="events",
            source_arn=rule.arn,
            topic_arn=target["Arn"],
            message=written(target, event),
        )
    )


def _to_runbook(rule: Any, target: Target, event: Event) -> str | None:
    """Start a runbook of Systems Manager, with the role of the target."""
    from botocore.exceptions import ClientError

    definition, _, version = target["Arn"].partition(":automation-definition/")[2].partition(":")
    role, source = target.get("RoleArn", ""), {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": rule.arn}
    if not role or not judge_service("events.amazonaws.com", "sts:AssumeRole", role, source).is_allowed:
        return f"events.amazonaws.com may not assume the role of the target: {role or 'it has none'}"
    try:
        own_client("ssm", rule.region_name).start_automation_execution(
            DocumentName=definition,
            DocumentVersion=version or "$DEFAULT",
            Parameters=json.loads(written(target, event)),
        )
    except (ClientError, ValueError) as error:
        return str(error)
    return None


def _transformed(transformer: Mapping[str, Any], event: Event) -> str:
    """Fill in the variables: as text between quotes, as JSON elsewhere."""
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
