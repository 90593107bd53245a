"""Opens sessions of Systems Manager: a shell, a command, a port or sshd of a machine, with no open port.

StartSession returns the URL of a stream, and AWS's session-manager-plugin connects to it; no AWS CLI is
needed. In the yard, a program of its own replaces the plugin. Another kind of session is a function that
returns a SessionRequest.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask
from slipway.jobs.words.errors import SlipwayError

PLUGIN = "session-manager-plugin"
# Since 1.2.497 of 2023 the plugin reads the answer from a variable (aws-cli, sessionmanager.py); as an
# argument, its token would show in the list of processes.
_ANSWER = "AWS_SSM_START_SESSION_RESPONSE"
_TOLD = ("SessionId", "TokenValue", "StreamUrl")
_LOWEST_PORT, _HIGHEST_PORT = 1, 65535
_SSH_PORT = 22
_IN_YARD = (sys.executable, "-P", "-m", "slipway.yard.session_plugin")


class NoSession(SlipwayError):
    """The machine cannot be entered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """Hold the parameters of one StartSession."""

    instance_id: str
    document: str | None = None  # None: the account's own document for a shell
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Any]:
        """Return the parameters as StartSession takes them."""
        named = {"DocumentName": self.document} if self.document else {}
        given = {name: list(values) for name, values in self.parameters.items()}
        return {"Target": self.instance_id, **named, **({"Parameters": given} if given else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Hold a port of this machine and the node's port that it leads to."""

    local: int
    remote: int

    @classmethod
    def parse(cls, text: str) -> Forward:
        """Read PORT or LOCAL:PORT."""
        words = text.split(":")
        ports = [int(word) if word.isascii() and word.isdigit() else 0 for word in words]
        if len(words) > 2 or not all(_LOWEST_PORT <= port <= _HIGHEST_PORT for port in ports):
            raise NoSession(
                f"--forward is {text!r}; allowed is PORT or LOCAL:PORT, each from {_LOWEST_PORT} "
                f"to {_HIGHEST_PORT}",
                hint="--forward 6006 for TensorBoard, --forward 8888 for Jupyter",
            )
        return cls(local=ports[0], remote=ports[-1])


def shell(instance_id: str, words: Sequence[str] = ()) -> SessionRequest:
    """Request a shell, or one command in it, whose words reach the program unchanged."""
    if not words:
        return SessionRequest(instance_id=instance_id)
    return SessionRequest(
        instance_id=instance_id,
        document="AWS-StartInteractiveCommand",
        parameters={"command": [shlex.join(words)]},
    )


def forward(instance_id: str, ports: Forward) -> SessionRequest:
    """Request a port of the machine, even one that listens on its loopback address alone."""
    return SessionRequest(
        instance_id=instance_id,
        document="AWS-StartPortForwardingSession",
        parameters={"portNumber": [str(ports.remote)], "localPortNumber": [str(ports.local)]},
    )


def sshd(instance_id: str) -> SessionRequest:
    """Request the machine's sshd on standard input and output, as a ProxyCommand of ssh."""
    return SessionRequest(
        instance_id=instance_id,
        document="AWS-StartSSHSession",
        parameters={"portNumber": [str(_SSH_PORT)]},
    )


def enter(request: SessionRequest, region: str) -> NoReturn:
    """Start the session, and replace this process by the program that connects to it."""
    plugin = _IN_YARD if aws.is_in_yard() else _plugin()
    ssm = aws.client("ssm", region)
    answer = ask(ssm, "StartSession", **request.asked)
    if isinstance(answer, Unanswered):
        raise NoSession(
            f"{request.instance_id}: {answer.words}",
            hint=answer.remedy(
                "ssh",
                otherwise="a machine that boots is reached a minute or two later; run the same command again",
            ),
        )
    # The words with which the AWS CLI starts the plugin, which resumes a session with the profile.
    profile, endpoint = os.environ.get("AWS_PROFILE", ""), str(ssm.meta.endpoint_url)
    words = [*plugin, _ANSWER, region, "StartSession", profile, json.dumps(request.asked), endpoint]
    told = {_ANSWER: json.dumps({name: answer[name] for name in _TOLD})}
    sys.stdout.flush()
    os.execvpe(words[0], words, {**os.environ, **told})  # noqa: S606 - no shell


def send_key(instance_id: str, user: str, public_key: str, region: str) -> None:
    """Let the key log in to the machine's sshd for a minute, by EC2 Instance Connect."""
    connect = aws.client("ec2-instance-connect", region)
    asked = {"InstanceId": instance_id, "InstanceOSUser": user, "SSHPublicKey": public_key}
    answer = ask(connect, "SendSSHPublicKey", **asked)
    if isinstance(answer, Unanswered):
        raise NoSession(
            f"{instance_id} takes no key for {user}: {answer.action}: {answer.code}, {answer.message[:200]}",
            hint=answer.remedy("ssh", otherwise="is the machine running?"),
        )


def _plugin() -> tuple[str]:
    if found := shutil.which(PLUGIN):
        return (found,)
    raise NoSession(
        f"{PLUGIN} is not installed here, and it speaks on a session of Systems Manager",
        hint="install it: https://docs.aws.amazon.com/systems-manager/latest/userguide/"
        "session-manager-working-with-install-plugin.html",
    )
