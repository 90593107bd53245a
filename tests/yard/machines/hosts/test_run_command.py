"""SSM's Run Command runs deployed documents on hosts, and reports results as AWS does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.endpoint import control
from tests.yard.asking import refusal
from tests.yard.machines.hosts.conftest import Cluster, Site, Vpc

LOG_GROUP = "/slipway/trial/commands"
# Declared as in infra: one parameter, in quotes, which can only be the key of a request.
DOCUMENT = {
    "schemaVersion": "2.2",
    "description": "trial",
    "parameters": {
        "RequestKey": {"type": "String", "allowedPattern": r"^jobs/[A-Za-z0-9_-]{1,128}/request\.json$"},
        "TimeoutSeconds": {"type": "String", "default": "60", "allowedPattern": "^[0-9]{1,6}$"},
        "Anything": {"type": "String", "default": "", "interpolationType": "ENV_VAR"},
    },
    "mainSteps": [
        {
            "action": "aws:runShellScript",
            "name": "run: a job",
            "inputs": {
                "timeoutSeconds": "{{ TimeoutSeconds }}",
                "runCommand": [
                    "#!/bin/bash",
                    "echo '{{ RequestKey }}'; echo told >&2",
                    "printf '%s' \"$SSM_Anything\"",
                ],
            },
        }
    ],
}
KEY = "jobs/trial-1/request.json"


class Commands:
    """Return SSM and one host."""

    def __init__(self, site: Site, instance: str) -> None:
        self.site, self.instance = site, instance
        self.ssm, self.logs = site.client("ssm"), site.client("logs")

    def send(self, document: str = "AWS-RunShellScript", **more: Any) -> str:
        sent = self.ssm.send_command(DocumentName=document, InstanceIds=[self.instance], **more)
        return str(sent["Command"]["CommandId"])

    def shell(self, *lines: str, **more: Any) -> str:
        given = {"commands": list(lines), **more.pop("Parameters", {})}
        return self.send(Parameters=given, **more)

    def invocation(self, command: str) -> dict[str, Any]:
        return dict(self.ssm.get_command_invocation(CommandId=command, InstanceId=self.instance))

    def status(self, command: str) -> str:
        return str(self.invocation(command)["Status"])

    def ended(self, command: str) -> dict[str, Any]:
        self.site.until(lambda: self.status(command) not in ("Pending", "InProgress"))
        return self.invocation(command)

    def lines(self, stream: str) -> list[str]:
        found = self.logs.get_log_events(logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True)
        return [event["message"] for event in found["events"]]

    def streams(self, command: str) -> list[str]:
        found = self.logs.describe_log_streams(logGroupName=LOG_GROUP, logStreamNamePrefix=command)
        return [stream["logStreamName"] for stream in found["logStreams"]]


@pytest.fixture
def commands(site: Site, cluster: Cluster) -> Commands:
    return Commands(site, cluster.instance(cluster.members[0]))


@pytest.fixture(scope="session")
def document(site: Site) -> str:
    site.client("ssm").create_document(
        Name="trial-run", DocumentType="Command", DocumentFormat="JSON", Content=json.dumps(DOCUMENT)
    )
    return "trial-run"


def to_cloudwatch() -> dict[str, Any]:
    return {"CloudWatchLogGroupName": LOG_GROUP, "CloudWatchOutputEnabled": True}


def test_a_command_runs_on_the_host_and_its_output_arrives(commands: Commands) -> None:
    said = commands.ended(commands.shell("hostname -s", "echo oh >&2", "exit 3"))
    assert (said["Status"], said["ResponseCode"]) == ("Failed", 3)
    assert said["StandardOutputContent"].startswith("ip-10-")
    assert said["StandardErrorContent"] == "oh\n"
    assert commands.ended(commands.shell("true"))["Status"] == "Success"


def test_a_deployed_document_runs_with_its_parameters_and_writes_to_cloudwatch(
    commands: Commands, document: str
) -> None:
    command = commands.send(
        document, Parameters={"RequestKey": [KEY]}, CloudWatchOutputConfig=to_cloudwatch(), Comment="trial-1"
    )
    said = commands.ended(command)
    assert (said["Status"], said["StandardOutputContent"]) == ("Success", f"{KEY}\n")
    place = f"{command}/{commands.instance}/run--a-job"
    assert sorted(commands.streams(command)) == [f"{place}/stderr", f"{place}/stdout"]
    assert commands.lines(f"{place}/stdout") == [KEY]
    assert commands.lines(f"{place}/stderr") == ["told"]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"RequestKey": ["jobs/x'; touch /tmp/owned; '/request.json"]}, "does not match"),
        ({"RequestKey": ["jobs/$(touch /tmp/owned)/request.json"]}, "does not match"),
        ({"RequestKey": [f"{KEY}\n"]}, "does not match"),
        ({"RequestKey": ["jobs/../../request.json"]}, "does not match"),
        ({}, "RequestKey needs a value"),
        ({"RequestKey": [KEY], "Other": ["x"]}, "no parameter Other"),
    ],
)
def test_parameters_that_the_document_does_not_allow_are_refused_and_run_by_nobody(
    commands: Commands, document: str, parameters: dict[str, list[str]], says: str
) -> None:
    refused = refusal(commands.send, document=document, Parameters=parameters)
    assert (refused["Code"], says in refused["Message"]) == ("InvalidParameters", True)
    assert commands.site.on(commands.instance, "test", "-e", "/tmp/owned").code == 1


def test_a_parameter_that_is_a_variable_is_never_read_by_a_shell(commands: Commands, document: str) -> None:
    text = "$(touch /tmp/owned) `id` ' \" ; exit 1"
    said = commands.ended(commands.send(document, Parameters={"RequestKey": [KEY], "Anything": [text]}))
    assert (said["Status"], said["StandardOutputContent"]) == ("Success", f"{KEY}\n{text}")


def test_what_is_not_there_is_refused_as_by_aws(commands: Commands) -> None:
    assert refusal(commands.send, document="none")["Code"] == "InvalidDocument"
    nobody = refusal(
        commands.ssm.send_command,
        DocumentName="AWS-RunShellScript",
        InstanceIds=["i-0123456789abcdef0"],
        Parameters={"commands": ["true"]},
    )
    assert nobody["Code"] == "InvalidInstanceId"
    command = commands.shell("true")
    unknown = refusal(
        commands.ssm.get_command_invocation, CommandId=command, InstanceId="i-0123456789abcdef0"
    )
    assert unknown["Code"] == "InvocationDoesNotExist"


def test_a_cancelled_command_ends_with_all_that_it_started_and_hears_nothing_before(
    commands: Commands,
) -> None:
    """A program that waits for SIGTERM there cleans up nothing, as on AWS."""
    marker = "sleep 86399"
    script = f"trap 'echo heard' TERM; {marker} & {marker} & echo started; while :; do sleep 0.2; done"
    command = commands.shell(script, CloudWatchOutputConfig=to_cloudwatch())
    commands.site.until(lambda: commands.streams(command))
    assert commands.status(command) == "InProgress"
    commands.ssm.cancel_command(CommandId=command)
    said = commands.ended(command)
    assert (said["Status"], said["ResponseCode"]) == ("Cancelled", 137)
    assert "heard" not in said["StandardOutputContent"]
    listed = commands.ssm.list_commands(CommandId=command)["Commands"]
    assert [each["Status"] for each in listed] == ["Cancelled"]
    assert commands.ended(commands.shell(f"pgrep -f '^{marker}'"))["ResponseCode"] == 1


def test_a_command_whose_host_died_goes_on_until_it_is_cancelled(site: Site, own_vpc: Vpc) -> None:
    """Nothing is left that could report how it ended, as on AWS."""
    (name,) = own_vpc.start("nodes", own_vpc.security_group("members"), 1)
    suspended = ["ReplaceUnhealthy"]
    site.client("autoscaling").suspend_processes(
        AutoScalingGroupName=own_vpc.groups[0], ScalingProcesses=suspended
    )
    commands = Commands(site, own_vpc.hosts("nodes")[0]["instance"])
    command = commands.shell("echo started; sleep infinity", CloudWatchOutputConfig=to_cloudwatch())
    site.until(lambda: commands.streams(command))
    control(site.yard, "POST", "/kill-host", {"host": name})
    site.until(lambda: own_vpc.hosts("nodes")[0]["state"] == "dead")
    assert commands.status(command) == "InProgress"
    commands.ssm.cancel_command(CommandId=command)
    assert commands.ended(command)["Status"] == "Cancelled"


def test_a_command_that_takes_too_long_is_ended(commands: Commands) -> None:
    said = commands.ended(commands.shell("sleep 86398", Parameters={"executionTimeout": ["1"]}))
    assert (said["Status"], said["StatusDetails"]) == ("TimedOut", "ExecutionTimedOut")
    assert commands.ended(commands.shell("pgrep -f '^sleep 86398'"))["ResponseCode"] == 1


def test_a_command_goes_to_all_hosts_that_carry_a_tag_which_are_managed_instances(
    commands: Commands, cluster: Cluster
) -> None:
    sent = commands.ssm.send_command(
        DocumentName="AWS-RunShellScript",
        Targets=[{"Key": "tag:slipway:cluster", "Values": [f"nodes-{cluster.vpc.number}"]}],
        Parameters={"commands": ["true"]},
    )
    assert sent["Command"]["TargetCount"] == 2
    found = commands.ssm.describe_instance_information()["InstanceInformationList"]
    online = {each["InstanceId"] for each in found if each["PingStatus"] == "Online"}
    assert {cluster.instance(name) for name in cluster.members} <= online


def test_a_command_is_found_by_its_comment_where_its_sender_never_heard_of_it(commands: Commands) -> None:
    command = commands.shell("true", Comment="job-of-mine")
    commands.ended(command)
    found = commands.ssm.list_commands(Filters=[{"key": "DocumentName", "value": "AWS-RunShellScript"}])
    assert [each["CommandId"] for each in found["Commands"] if each["Comment"] == "job-of-mine"] == [command]
    (invocation,) = commands.ssm.list_command_invocations(CommandId=command, Details=True)[
        "CommandInvocations"
    ]
    assert invocation["CommandPlugins"][0]["ResponseCode"] == 0


def test_a_command_sees_and_ends_what_another_command_left_running(commands: Commands) -> None:
    """Cancel as a job is cancelled: by another command than the one that runs the job."""
    leave = "MARK=left sleep infinity >/dev/null 2>&1 & echo $!"
    left = commands.ended(commands.shell(leave))["StandardOutputContent"].strip()
    look = f"tr '\\0' '\\n' </proc/{left}/environ | grep ^MARK && kill -9 {left}"
    assert commands.ended(commands.shell(look))["StandardOutputContent"] == "MARK=left\n"
