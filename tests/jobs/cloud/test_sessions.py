"""A session sends Systems Manager the right request, and AWS's session-manager-plugin the right arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.jobs.cloud import aws, sessions
from slipway.jobs.cloud.sessions import Forward, NoSession
from slipway.yard.endpoint import control
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.yard.asking import BY_ACCOUNT, make_role
from tests.yard.conftest import REGION, RunningYard

NODE = "i-0123456789abcdef0"
ANSWER = {
    "SessionId": "me-0a1b",
    "TokenValue": "t0ken",
    "StreamUrl": "wss://ssmmessages.us-east-1.amazonaws.com/x",
}


class Became(Exception):
    """Record the program that would replace this process."""


@pytest.fixture
def plugin(yard_shell: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a laptop with AWS's plugin, which does not know that it uses a yard."""
    program = tmp_path / "session-manager-plugin"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(aws, "is_in_yard", lambda: False)

    def become(program: str, words: list[str], environment: dict[str, str]) -> None:
        raise Became(program, words, environment)

    monkeypatch.setattr(os, "execvpe", become)
    script(yard_shell, Fault(service="ssm", operation="StartSession", kind=FaultKind.RESPOND, body=[ANSWER]))
    yield program
    unscript(yard_shell)


def test_the_plugin_gets_what_the_aws_cli_gives_it_and_its_token_is_in_no_list_of_processes(
    plugin: Path, yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments are those of StartSessionCaller in aws-cli's sessionmanager.py."""
    plugin.with_name("config").write_text("[profile me]\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(plugin.with_name("config")))
    monkeypatch.setenv("AWS_PROFILE", "me")
    with pytest.raises(Became) as became:
        sessions.enter(sessions.forward(NODE, Forward(local=8080, remote=6006)), REGION)
    program, words, environment = became.value.args
    asked = {
        "Target": NODE,
        "DocumentName": "AWS-StartPortForwardingSession",
        "Parameters": {"portNumber": ["6006"], "localPortNumber": ["8080"]},
    }
    assert (program, json.loads(words.pop(5))) == (str(plugin), asked)
    variable = "AWS_SSM_START_SESSION_RESPONSE"
    assert words == [str(plugin), variable, REGION, "StartSession", "me", yard_shell.endpoint]
    assert json.loads(environment[variable]) == ANSWER


def test_a_shell_asks_for_no_document_and_a_command_is_quoted_once() -> None:
    assert sessions.shell(NODE).asked == {"Target": NODE}
    asked = sessions.shell(NODE, ("echo", "$(id) it's")).asked
    assert asked["Parameters"] == {"command": ["""echo '$(id) it'"'"'s'"""]}


def test_without_the_plugin_nothing_is_started_and_it_says_where_to_get_it(
    plugin: Path, yard_shell: RunningYard
) -> None:
    plugin.unlink()
    with pytest.raises(NoSession, match="session-manager-plugin is not installed here") as refused:
        sessions.enter(sessions.shell(NODE), REGION)
    assert "install-plugin" in refused.value.hint
    assert [each["struck"] for each in control(yard_shell, "GET", "/faults")] == [0]


def test_a_machine_that_has_not_booted_is_told_from_one_that_is_forbidden(
    yard_shell: RunningYard,
) -> None:
    with pytest.raises(NoSession, match="TargetNotConnected") as early:
        sessions.enter(sessions.shell(NODE), REGION)
    assert "a minute or two later" in early.value.hint
    make_role(yard_shell, "reader", BY_ACCOUNT)
    control(yard_shell, "POST", "/caller-role", "reader")
    with pytest.raises(NoSession, match="AccessDenied") as denied:
        sessions.enter(sessions.shell(NODE), REGION)
    policy = "slipway cluster permissions CLUSTER --for ssh prints the policy"
    assert denied.value.hint == f"allow ssm:StartSession to your role: {policy}"
    with pytest.raises(NoSession, match="takes no key for slipway") as keyless:
        sessions.send_key(NODE, "slipway", "ssh-ed25519 " + "A" * 68, REGION)
    assert keyless.value.hint == f"allow ec2-instance-connect:SendSSHPublicKey to your role: {policy}"


@pytest.mark.parametrize("text", ["", "x", "0", "70000", "1:2:3", "6006:", ":80", "-1", "٣", "80 "])
def test_a_port_that_is_none_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(NoSession, match=r"allowed is PORT or LOCAL:PORT, each from 1 to 65535"):
        Forward.parse(text)


def test_one_port_is_the_same_on_both_sides() -> None:
    assert Forward.parse("6006") == Forward(local=6006, remote=6006)
    assert Forward.parse("8080:6006") == Forward(local=8080, remote=6006)
