"""How SSM's API shows a command and its invocations. A further member is a line of its function."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from slipway.yard.services.ssm import run_command
from slipway.yard.services.ssm.run_command import Command, Invocation, StepOutcome

Answer = dict[str, Any]

DELIVERY_TIMEOUT_S = 3600  # TimeoutSeconds where none is given
MOST_OUTPUT_LISTED = 2500  # characters of a step that ListCommandInvocations shows


def command(sent_one: Command) -> Answer:
    sent, states = sent_one.sent, [each.status for each in sent_one.invocations.values()]
    return {
        "CommandId": sent_one.id,
        "DocumentName": sent["DocumentName"],
        "DocumentVersion": sent_one.version,
        "Comment": sent.get("Comment", ""),
        "ExpiresAfter": sent_one.requested_at
        + timedelta(seconds=sent.get("TimeoutSeconds", DELIVERY_TIMEOUT_S)),
        "Parameters": sent.get("Parameters") or {},
        "InstanceIds": sent.get("InstanceIds") or [],
        "Targets": sent.get("Targets") or [],
        "RequestedDateTime": sent_one.requested_at,
        "Status": sent_one.status,
        "StatusDetails": sent_one.status,
        "MaxConcurrency": sent.get("MaxConcurrency", "50"),
        "MaxErrors": sent.get("MaxErrors", "0"),
        "TargetCount": len(states),
        "CompletedCount": sum(state in run_command.FINAL for state in states),
        "ErrorCount": sum(state in ("Failed", "TimedOut") for state in states),
        "DeliveryTimedOutCount": 0,
        "CloudWatchOutputConfig": _output_config(sent_one),
        "TimeoutSeconds": sent.get("TimeoutSeconds", DELIVERY_TIMEOUT_S),
    }


def invocation(one: Invocation, step: str | None) -> Answer:
    """GetCommandInvocation's: of the step that is named, else of the last one that has begun."""
    outcome = _outcome(one, step)
    return {
        **_of_both(one),
        "PluginName": outcome.name,
        "ResponseCode": outcome.code,
        **_times(outcome),
        "Status": outcome.status if step else one.status,
        "StandardOutputContent": outcome.text("stdout"),
        "StandardErrorContent": outcome.text("stderr"),
        "StandardOutputUrl": "",
        "StandardErrorUrl": "",
    }


def listed(one: Invocation, with_steps: bool) -> Answer:
    """ListCommandInvocations'."""
    return {
        **_of_both(one),
        "RequestedDateTime": one.command.requested_at,
        "CommandPlugins": [_plugin(outcome) for outcome in one.outcomes] if with_steps else [],
    }


def _of_both(one: Invocation) -> Answer:
    return {
        "CommandId": one.command.id,
        "InstanceId": one.instance,
        "Comment": one.command.sent.get("Comment", ""),
        "DocumentName": one.command.sent["DocumentName"],
        "DocumentVersion": one.command.version,
        "Status": one.status,
        "StatusDetails": one.details,
        "CloudWatchOutputConfig": _output_config(one.command),
    }


def _outcome(one: Invocation, step: str | None) -> StepOutcome:
    if step:
        return next(outcome for outcome in one.outcomes if outcome.name == step)
    begun = [outcome for outcome in one.outcomes if outcome.started_at]
    return begun[-1] if begun else one.outcomes[0]


def _times(outcome: StepOutcome) -> Answer:
    """Return the times, each "" until it is known."""
    started, ended = outcome.started_at, outcome.ended_at
    if started is None:
        return {"ExecutionStartDateTime": "", "ExecutionEndDateTime": "", "ExecutionElapsedTime": ""}
    elapsed = f"PT{(ended - started).total_seconds():.3f}S" if ended else ""
    return {
        "ExecutionStartDateTime": started.isoformat(timespec="milliseconds"),
        "ExecutionEndDateTime": ended.isoformat(timespec="milliseconds") if ended else "",
        "ExecutionElapsedTime": elapsed,
    }


def _output_config(command: Command) -> Answer:
    return {"CloudWatchLogGroupName": command.log_group, "CloudWatchOutputEnabled": bool(command.log_group)}


def _plugin(outcome: StepOutcome) -> Answer:
    shown: Answer = {
        "Name": outcome.name,
        "Status": outcome.status,
        "StatusDetails": outcome.status,
        "ResponseCode": outcome.code,
        "Output": (outcome.text("stdout") + outcome.text("stderr"))[:MOST_OUTPUT_LISTED],
    }
    if outcome.started_at:
        shown["ResponseStartDateTime"] = outcome.started_at
    if outcome.ended_at:
        shown["ResponseFinishDateTime"] = outcome.ended_at
    return shown
