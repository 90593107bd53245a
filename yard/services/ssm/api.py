"""The API of Run Command; run_command.py runs commands. To add an operation: a function and its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines.hosts import host_store
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.machines.memory import promises
from slipway.yard.services.recorded import paged
from slipway.yard.services.ssm import documents, run_command
from slipway.yard.services.ssm.mpi_jobs import need_of
from slipway.yard.services.ssm.run_command import Command, Invocation, StepOutcome

Parameters = Mapping[str, Any]

MOST_LISTED = 50
LOG_GROUP = "/aws/ssm/{}"  # for CloudWatch output without a group


def reset() -> None:
    run_command.reset()


def _send(parameters: Parameters, region: str) -> Answer:
    if bucket := parameters.get("OutputS3BucketName"):
        raise not_emulated(
            "ssm",
            "SendCommand",
            f"OutputS3BucketName {bucket}",
            reason="give a CloudWatchOutputConfig instead",
        )
    name, version, document = _document(parameters, region)
    steps = documents.steps(document, parameters.get("Parameters") or {})
    instances = _instances(parameters, region)
    need = need_of(name, parameters.get("Parameters") or {}, region)
    if need and (problem := promises.refusal(need)):
        raise ApiError("InvalidParameters", problem)
    wanted = parameters.get("CloudWatchOutputConfig") or {}
    group = wanted.get("CloudWatchLogGroupName") or LOG_GROUP.format(name)
    command = Command(
        region=region,
        sent=parameters,
        steps=steps,
        version=version,
        log_group=group if wanted.get("CloudWatchOutputEnabled") else "",
        need=need,
    )
    run_command.send(command, instances)
    return {"Command": _shown_command(command)}


def _document(parameters: Parameters, region: str) -> tuple[str, str, Mapping[str, Any]]:
    """Return the document by name or ARN, as it is deployed now."""
    name = parameters["DocumentName"].rpartition("document/")[2]
    if name in documents.OWN:
        return name, "1", documents.OWN[name]
    found = documents.deployed(name, parameters.get("DocumentVersion"), region)
    if found is None:
        raise ApiError("InvalidDocument", f"Document with name {name} does not exist.")
    return name, *found


def _instances(parameters: Parameters, region: str) -> list[str]:
    named = list(parameters.get("InstanceIds") or ())
    if len(set(named)) != len(named):
        raise ApiError(
            "DuplicateInstanceId", "You cannot specify an instance ID in more than one association."
        )
    managed = {host.instance.id: host for host in _managed(region)}
    if unknown := [host for host in named if host not in managed]:
        raise ApiError("InvalidInstanceId", f"Instances [[{', '.join(unknown)}]] not in a valid state")
    targets = parameters.get("Targets") or ()
    for host in managed.values() if targets else ():
        if all(_is_target(host, target) for target in targets) and host.instance.id not in named:
            named.append(host.instance.id)
    return named


def _is_target(host: Host, target: Mapping[str, Any]) -> bool:
    key, values = target["Key"], target.get("Values", [])
    if key == "InstanceIds":
        return host.instance.id in values
    if not key.startswith("tag:"):
        raise ApiError("InvalidTarget", f"the yard knows the targets InstanceIds and tag:*, not {key}")
    return host.instance.tags.get(key[4:]) in values


def _managed(region: str) -> list[Host]:
    """Return the hosts whose agent would answer."""
    with host_store.changed:
        hosts = list(host_store.hosts.values())
    return [host for host in hosts if host.instance.region == region and documents.is_managed(host)]


def _cancel(parameters: Parameters, region: str) -> Answer:
    run_command.cancel(_command(parameters, region), parameters.get("InstanceIds") or ())
    return {}


def _list(parameters: Parameters, region: str) -> Answer:
    """List the commands, the newest first."""
    found = [command for command in reversed(list(run_command.commands.values())) if command.region == region]
    if wanted := parameters.get("CommandId"):
        found = [command for command in found if command.id == wanted]
    if instance := parameters.get("InstanceId"):
        found = [command for command in found if instance in command.invocations]
    shown = [each for each in map(_shown_command, found) if _passes(each, parameters)]
    return _page("Commands", shown, parameters)


def _list_invocations(parameters: Parameters, region: str) -> Answer:
    found: list[Answer] = [
        {
            **_of_both(invocation),
            "RequestedDateTime": command.requested_at,
            "CommandPlugins": [_plugin(each) for each in invocation.outcomes if parameters.get("Details")],
        }
        for command in reversed(list(run_command.commands.values()))
        for invocation in command.invocations.values()
        if command.region == region
        and parameters.get("CommandId") in (None, command.id)
        and parameters.get("InstanceId") in (None, invocation.instance)
    ]
    shown = [each for each in found if _passes(each, parameters)]
    return _page("CommandInvocations", shown, parameters)


def _page(member: str, items: list[Answer], parameters: Parameters) -> Answer:
    return paged(member, items, parameters, asked=("NextToken", "MaxResults"), size=MOST_LISTED)


def _passes(shown: Mapping[str, Any], parameters: Parameters) -> bool:
    for condition in parameters.get("Filters") or ():
        key, value = condition["key"], condition["value"]
        if key == "InvokedAfter" and shown["RequestedDateTime"] <= datetime.fromisoformat(value):
            return False
        if key == "InvokedBefore" and shown["RequestedDateTime"] >= datetime.fromisoformat(value):
            return False
        if key in ("Status", "DocumentName") and shown[key] != value:
            return False
    return True


def _get(parameters: Parameters, region: str) -> Answer:
    command = _command(parameters, region)
    invocation = command.invocations.get(parameters["InstanceId"])
    if invocation is None:
        raise ApiError("InvocationDoesNotExist", "")
    outcomes, name = invocation.outcomes, parameters.get("PluginName")
    named = [outcome for outcome in outcomes if outcome.name == name]
    if name and not named:
        raise ApiError("InvalidPluginName", "")
    # Without a name, the last step that has begun.
    begun = [outcome for outcome in outcomes if outcome.started_at]
    outcome = named[0] if name else (begun or outcomes[:1])[-1]
    return {
        **_of_both(invocation),
        "PluginName": outcome.name,
        "ResponseCode": outcome.code,
        **_times(outcome),
        "Status": outcome.status if name else invocation.status,
        "StandardOutputContent": outcome.text("stdout"),
        "StandardErrorContent": outcome.text("stderr"),
        "StandardOutputUrl": "",
        "StandardErrorUrl": "",
    }


def _command(parameters: Parameters, region: str) -> Command:
    command = run_command.commands.get(parameters["CommandId"])
    if command is None or command.region != region:
        raise ApiError("InvalidCommandId", "")
    return command


def _describe_instances(parameters: Parameters, region: str) -> Answer:
    given, older = parameters.get("Filters") or (), parameters.get("InstanceInformationFilterList") or ()
    filters = [(condition["Key"], condition.get("Values", [])) for condition in given]
    filters += [(condition["key"], condition["valueSet"]) for condition in older]
    shown = []
    for host in _managed(region):
        fields = {"InstanceIds": host.instance.id, "PingStatus": "Online", "PlatformTypes": "Linux"}
        fields |= {f"tag:{key}": value for key, value in host.instance.tags.items()}
        if all(fields.get(key) in values for key, values in filters):
            facts: Answer = {
                "InstanceId": host.instance.id,
                "PingStatus": "Online",
                "PlatformType": "Linux",
                "ResourceType": "EC2Instance",
                "IPAddress": host.instance.address,
                "ComputerName": host.instance.hostname,
                "IamRole": host.instance.role,
            }
            shown.append(facts)
    return _page("InstanceInformationList", shown, parameters)


OPERATIONS: Mapping[str, Callable[[Parameters, str], Answer]] = {
    "CancelCommand": _cancel,
    "DescribeInstanceInformation": _describe_instances,
    "GetCommandInvocation": _get,
    "ListCommandInvocations": _list_invocations,
    "ListCommands": _list,
    "SendCommand": _send,
}


Answer = dict[str, Any]

DELIVERY_TIMEOUT_S = 3600  # the default of TimeoutSeconds
MOST_OUTPUT_LISTED = 2500  # characters of a step's output in ListCommandInvocations


# A command and its invocations as SSM's API shows them. To add a member: a line of the function.


def _shown_command(sent_one: Command) -> Answer:
    sent, states = sent_one.sent, [invocation.status for invocation in sent_one.invocations.values()]
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


def _times(outcome: StepOutcome) -> Answer:
    """Return the start and end times; "" while unknown."""
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
