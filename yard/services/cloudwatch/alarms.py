"""Evaluates alarms and carries out their actions: after every call that changes one, and once a minute.

moto keeps the alarms, but changes their state only on request. An alarm's history lists what it did.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import going_on
from slipway.yard.gateway.protocols import Call, Reply
from slipway.yard.moto_backends import moto_backend
from slipway.yard.services.cloudwatch import evaluation
from slipway.yard.services.cloudwatch.evaluation import (
    ALARM,
    NO_DATA,
    OK,
    AlarmRule,
    Datapoint,
    UnknownExpression,
    can_compare,
    compute,
    evaluate,
)
from slipway.yard.services.events import bus
from slipway.yard.services.sns import delivery
from slipway.yard.services.sns.delivery import Publication, publish

log = logging.getLogger("yard.alarms")

EVERY_S = 60.0
CREATED = "Unchecked: Initial alarm creation"
_CHANGES = ("Delete", "Disable", "Enable", "Put", "Set")


@dataclass(slots=True, kw_only=True)
class WatchedAlarm:
    """Keeps our facts of an alarm across PutMetricAlarm, for which moto makes a new object."""

    alarm: Any
    state: str = NO_DATA
    history: list[dict[str, Any]] = field(default_factory=list)


_watched: dict[str, WatchedAlarm] = {}  # by ARN
_lock = threading.RLock()
_started = threading.Lock()  # the first caller takes it forever


def noticed(call: Call, _reply: Reply) -> None:
    """Evaluate alarms after an answered call to CloudWatch."""
    if not call.operation.startswith(_CHANGES):
        return
    if _started.acquire(blocking=False):
        threading.Thread(target=_look_forever, name="alarms", daemon=True).start()
    look(call.region, told=call.operation == "SetAlarmState")


def look(region: str, *, told: bool = False, again: bool = False) -> None:
    """Evaluate all alarms, or only act on changed states (`told`); `again`: repeat what AWS repeats."""
    now = datetime.now(UTC).replace(tzinfo=None)
    with _lock:
        known = {alarm.alarm_arn: alarm for alarm in list(evaluation.backend(region).alarms.values())}
        for arn in [arn for arn in _watched if _region(arn) == region and arn not in known]:
            del _watched[arn]
        for arn, alarm in known.items():
            with going_on(log, "alarm %s could not be evaluated", arn):
                _look_at(_watch(arn, alarm), region, now, told=told, again=again)


def history(name: str | None, region: str) -> list[dict[str, Any]]:
    """Return the history of alarms, the newest first."""
    with _lock:
        found = [
            item
            for arn, watched in _watched.items()
            if _region(arn) == region and name in (None, watched.alarm.name)
            for item in watched.history
        ]
    return sorted(found, key=lambda item: item["Timestamp"], reverse=True)


def reset() -> None:
    with _lock:
        _watched.clear()
    with _lock_of_actions:
        _scaled_at.clear()


def _look_forever() -> None:
    pause = threading.Event()
    while not pause.wait(EVERY_S):
        with _lock:
            regions = {_region(arn) for arn in _watched}
        for region in regions:
            evaluation.report_groups(region)
            look(region, again=True)


def _watch(arn: str, alarm: Any) -> WatchedAlarm:
    """Return our facts of an alarm. A new one has no data; one that is put again keeps its state."""
    watched = _watched.get(arn)
    if watched is None:
        watched = _watched[arn] = WatchedAlarm(alarm=alarm)
        alarm.state_value, alarm.state_reason = NO_DATA, CREATED
    elif watched.alarm is not alarm:
        watched.alarm = alarm
        alarm.state_value = watched.state
    return watched


def _look_at(watched: WatchedAlarm, region: str, now: datetime, *, told: bool, again: bool) -> None:
    alarm = watched.alarm
    if not told and (state := _evaluated(alarm, region, now)) and state != alarm.state_value:
        reason = f"Threshold Crossed: the alarm is {state} for the datapoints up to {now:%d/%m/%y %H:%M:%S}."
        alarm.update_state(reason, "{}", state)
    if alarm.state_value != watched.state:
        before, watched.state = watched.state, alarm.state_value
        _record(watched, "StateUpdate", f"Alarm updated from {before} to {watched.state}")
        tell_of_change(alarm, before)
        _act(watched, before)
    elif again and watched.state == ALARM:
        _act(watched, watched.state, only_repeated=True)


def _act(watched: WatchedAlarm, before: str, *, only_repeated: bool = False) -> None:
    for arn, outcome in act(watched.alarm, before, only_repeated=only_repeated):
        if outcome is None:
            _record(watched, "Action", f"Successfully executed action {arn}")
        else:
            delivery.lost(watched.alarm.alarm_arn, arn, outcome)
            _record(watched, "Action", f'Failed to execute action {arn}. Received error: "{outcome}"')


def _record(watched: WatchedAlarm, sort: str, summary: str) -> None:
    watched.history.append(
        {
            "AlarmName": watched.alarm.name,
            "AlarmType": "MetricAlarm",
            "HistoryItemType": sort,
            "HistorySummary": summary,
            "Timestamp": datetime.now(UTC),
        }
    )


def _evaluated(alarm: Any, region: str, now: datetime) -> str | None:
    """Return the state for the alarm's data; None: keep it, as for alarms that the yard cannot evaluate."""
    if alarm.rule or not can_compare(alarm.comparison_operator):
        return None
    periods = int(alarm.evaluation_periods)
    rule = AlarmRule(
        periods=periods,
        datapoints=int(alarm.datapoints_to_alarm or periods),
        threshold=float(alarm.threshold),
        comparison=alarm.comparison_operator,
        missing=alarm.treat_missing_data or "missing",
    )
    try:
        values = _values(alarm, region, rule.evaluated, now)
    except UnknownExpression:
        return None
    return None if values is None else evaluate(rule, values)


def _values(alarm: Any, region: str, count: int, now: datetime) -> list[Datapoint] | None:
    if not alarm.metric_data_queries:
        if not alarm.statistic:
            return None
        periods = evaluation.Periods(seconds=int(alarm.period), count=count, now=now)
        return periods.of(region, alarm, alarm.statistic)
    series: dict[str, list[Datapoint]] = {}
    for query in sorted(alarm.metric_data_queries, key=lambda query: bool(query.expression)):
        if query.expression:
            series[query.id] = compute(query.expression, series, count)
        else:
            stat = query.metric_stat
            periods = evaluation.Periods(seconds=int(stat.period), count=count, now=now)
            series[query.id] = periods.of(region, stat.metric, stat.stat)
    returned = [query.id for query in alarm.metric_data_queries if str(query.return_data).lower() != "false"]
    return series[returned[0]] if returned else None


def _region(arn: str) -> str:
    return arn.split(":")[3]


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Answer DescribeAlarmHistory."""
    items = history(parameters.get("AlarmName"), region)
    if wanted := parameters.get("HistoryItemType"):
        items = [item for item in items if item["HistoryItemType"] == wanted]
    if parameters.get("ScanBy") == "TimestampAscending":
        items.reverse()
    return {"AlarmHistoryItems": items[: int(parameters.get("MaxRecords") or 100)]}


# Actions of an alarm when its state changes: publish or scale. To add one: a row of _ACTIONS.
_of_state: Mapping[str, str] = {
    ALARM: "alarm_actions",
    OK: "ok_actions",
    NO_DATA: "insufficient_data_actions",
}
_scaled_at: dict[str, float] = {}  # ARN of the scaling policy -> its last run, for the cooldown
_lock_of_actions = threading.Lock()


def act(alarm: Any, before: str, *, only_repeated: bool) -> Iterator[tuple[str, str | None]]:
    """Carry out the actions for the alarm's state; yield each with its error, if any.

    Auto Scaling's actions repeat as long as the alarm is on (CloudWatch user guide, "Alarm actions").
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
    """Put CloudWatch's event for a change of state."""
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
    """Carry out a scaling policy, unless its cooldown has not passed; return an error or None."""
    backend = moto_backend("autoscaling", alarm.region_name)
    policy = next((policy for policy in backend.policies.values() if policy.arn == arn), None)
    if policy is None:
        return "No scaling policy found"
    with _lock_of_actions:
        if time.monotonic() - _scaled_at.get(arn, float("-inf")) < (policy.cooldown or 0):
            return None
        _scaled_at[arn] = time.monotonic()
    policy.execute()
    return None


_ACTIONS: Mapping[str, Callable[[Any, str, str], str | None]] = {"autoscaling": _scale, "sns": _publish}
