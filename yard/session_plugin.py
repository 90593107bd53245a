"""Replaces AWS's session-manager-plugin in the yard: it takes the same arguments, but enters hosts directly.

The plugin communicates over a web socket with the agent on the instance. This program enters the host's
namespaces with its user's rights, as `slipway yard ssh` does. It leaves out:
- the stream's protocol, its encryption by KMS, and reconnection;
- ssm-user and the agent's terminal: you are root, in your own terminal, if any;
- DescribeSessions, TerminateSession, preferences, the end after 20 idle minutes, logs in S3 and CloudWatch.
Like the plugin it prints where a session begins and ends, but never its command's exit code. To add a
document: a function here, and its line of _WAYS.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process
from slipway.yard.commands.hosts import warn_of_plain
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import enter
from slipway.yard.machines.hosts.inside import relay
from slipway.yard.services.ssm import sessions

_BACKLOG = 128


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run with the AWS CLI's arguments: VARIABLE REGION StartSession PROFILE PARAMETERS ENDPOINT."""
    try:
        answer = json.loads(os.environ.pop(arguments[0]))
        asked = {"session": answer["SessionId"], "token": answer["TokenValue"]}
        door = control(process.required(), "POST", "/enter-session", asked)
        _say(f"\nStarting session with SessionId: {answer['SessionId']}")
        _WAYS[door["document"]](door["target"], door["values"])
        _say(f"\n\nExiting session with sessionId: {answer['SessionId']}.\n")
    except SlipwayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _shell(target: Mapping[str, Any], _values: Mapping[str, str]) -> None:
    _run(enter.enter_command(target, ()), target)


def _command(target: Mapping[str, Any], values: Mapping[str, str]) -> None:
    _run(enter.enter_command(target, ("sh", "-c", values["command"])), target)


def _run(into: enter.EnterCommand, target: Mapping[str, Any]) -> None:
    """Run the command, and leave Ctrl-C to it: it has the same terminal."""
    warn_of_plain(target)
    variables = enter.environment(target["environment"], os.environ)
    before = signal.signal(
        signal.SIGINT, lambda *_: None
    )  # unlike SIG_IGN, the command does not inherit a handler
    subprocess.run(into.argv, env=variables, pass_fds=into.descriptors, check=False)
    signal.signal(signal.SIGINT, before)


def _ssh(target: Mapping[str, Any], values: Mapping[str, str]) -> None:
    into = _to_port(target, values["portNumber"])
    subprocess.run(into.argv, pass_fds=into.descriptors, check=False)


def _port(target: Mapping[str, Any], values: Mapping[str, str]) -> None:
    into = _to_port(target, values["portNumber"])
    local = int(values["localPortNumber"])
    try:
        listener = socket.create_server(("127.0.0.1", local), backlog=_BACKLOG)
    except OSError as error:
        raise SlipwayError(f"port {local} of this machine cannot be opened: {error.strerror}") from None
    _say(f"Port {listener.getsockname()[1]} opened.\nWaiting for connections...")
    carried: list[subprocess.Popen[bytes]] = []
    with listener, suppress(KeyboardInterrupt):
        while True:
            connection, _ = listener.accept()
            carried = [relayed for relayed in carried if relayed.poll() is None]
            with connection:
                carried.append(
                    subprocess.Popen(
                        into.argv,
                        stdin=connection.fileno(),
                        stdout=connection.fileno(),
                        pass_fds=into.descriptors,
                    )
                )
    for relayed in carried:
        relayed.kill()


def _to_port(target: Mapping[str, Any], port: str) -> enter.EnterCommand:
    return enter.network_command(target, (sys.executable, "-I", "-S", relay.__file__, port))


def _say(text: str) -> None:
    print(text, flush=True)


_WAYS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], None]] = {
    sessions.SHELL: _shell,
    sessions.COMMAND: _command,
    sessions.PORT: _port,
    sessions.SSH: _ssh,
}

if __name__ == "__main__":
    sys.exit(main())
