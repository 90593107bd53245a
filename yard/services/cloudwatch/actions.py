"""What an alarm does when its state changes: publish, or scale. A further action is a row of _ACTIONS."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.services.cloudwatch.evaluation import ALARM, NO_DATA, OK
from slipway.yard.services.events import bus
from slipway.yard.services.sns.delivery import Publication, publish

_of_state: Mapping[str, str] = {
    ALARM: "alarm_actions",
    OK: "ok_actions",
    NO_DATA: "insufficient_data_actions",
}
_scaled_at: dict[str, float] = {}  # by the ARN of the policy, for its cooldown
_lock = threading.Lock()


def act(alarm: Any, before: str, *, only_repeated: bool) -> Iterator[tuple[str, str | None]]:
    """Carry out the actions of the alarm's state; yield each with the error that it met, if any.

    Those of Auto Scaling are repeated as long as the alarm is on (CloudWatch user guide, "Alarm actions").
    """
    if not alarm.actions_enabled:
        return
    for arn in getattr(alarm, _of_state[alarm.state_value]):
        service = arn.split(":")[2]
        if only_repeated and service != "autoscaling":
            continue
        run = _ACTIONS.get(service)
        yield arn, (run(alarm, arn, before) if run else f"the yard has no alarm action of {service}")


def tell_of_change(alarm: Any, before: str) -> None:
    """Put the event that CloudWatch puts with every change of state."""
    state = {"value": alarm.state_value, "reason": alarm.state_reason}
    detail = {"alarmName": alarm.name, "state": state, "previousState": {"value": before}}
    bus.emit(
        bus.ServiceEvent(
            source="aws.cloudwatch",
            detail_type="CloudWatch Alarm State Change",
            region=alarm.region_name,
            resources=(alarm.alarm_arn,),
            detail=detail,
        )
    )


def reset() -> None:
    with _lock:
        _scaled_at.clear()


def _publish(alarm: Any, arn: str, before: str) -> str | None:
    message = {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": ACCOUNT,
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "OldStateValue": before,
        "Region": alarm.region_name,
        "AlarmArn": alarm.alarm_arn,
    }
    return publish(
        Publication(
            service="cloudwatch",
            source_arn=alarm.alarm_arn,
            topic_arn=arn,
            subject=f'{alarm.state_value}: "{alarm.name}" in {alarm.region_name}',
            message=json.dumps(message),
        )
    )


def _scale(alarm: Any, arn: str, _before: str) -> str | None:
    """Carry out a scaling policy, unless its group still cools down from the last time."""
    from moto.autoscaling.models import autoscaling_backends

    backend = autoscaling_backends[ACCOUNT][alarm.region_name]
    policy = next((each for each in backend.policies.values() if each.arn == arn), None)
    if policy is None:
        return "No scaling policy found"
    with _lock:
        if time.monotonic() - _scaled_at.get(arn, float("-inf")) < (policy.cooldown or 0):
            return None
        _scaled_at[arn] = time.monotonic()
    policy.execute()
    return None


_ACTIONS: Mapping[str, Callable[[Any, str, str], str | None]] = {"autoscaling": _scale, "sns": _publish}
