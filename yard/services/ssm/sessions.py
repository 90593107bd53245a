"""SSM's sessions: StartSession, and entering the session's host. To add a document: a line of DOCUMENTS.

AWS answers with the URL of a stream for its session-manager-plugin. The URL that is answered here does not
work: yard/session_plugin.py replaces the plugin, and says what it leaves out.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from slipway.yard.endpoint import CONTROL_PATH, ENDPOINT_VARIABLE
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.machines.hosts import enter, host_store
from slipway.yard.machines.hosts.host_store import Host
from slipway.yard.services.ssm import documents

SHELL = "SSM-SessionManagerRunShell"  # the default document
COMMAND = "AWS-StartInteractiveCommand"
PORT = "AWS-StartPortForwardingSession"
SSH = "AWS-StartSSHSession"
_PORT = {
    "type": "String",
    "allowedPattern": r"[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5]",
}
# The parameters of Amazon's own documents, as `aws ssm get-document` shows them.
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    SHELL: {},
    COMMAND: {"command": {"type": "String"}},
    PORT: {
        "portNumber": {**_PORT, "default": "80"},
        "localPortNumber": {**_PORT, "allowedPattern": f"0|{_PORT['allowedPattern']}", "default": "0"},
    },
    SSH: {"portNumber": {**_PORT, "default": "22"}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session that was not entered yet."""

    token: str
    host: Host
    document: str
    values: Mapping[str, Any]


_begun: dict[str, Session] = {}
_lock = threading.Lock()


def call(operation: str, parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    assert operation == "StartSession", "registry.py lists no other"
    name = parameters.get("DocumentName") or SHELL
    if name not in DOCUMENTS:
        raise not_emulated("ssm", operation, f"DocumentName {name}", reason=f"it has {', '.join(DOCUMENTS)}")
    values = documents.checked_values(DOCUMENTS[name], parameters.get("Parameters") or {})
    host = host_store.hosts.get(parameters["Target"])
    if host is None or host.instance.region != region or not documents.is_managed(host):
        raise ApiError("TargetNotConnected", f"{parameters['Target']} is not connected.")
    identifier, token = f"yard-{secrets.token_hex(9)}", secrets.token_urlsafe(32)
    with _lock:
        _begun[identifier] = Session(token=token, host=host, document=name, values=values)
    stream = f"{os.environ[ENDPOINT_VARIABLE]}{CONTROL_PATH}/enter-session"
    return {"SessionId": identifier, "TokenValue": token, "StreamUrl": stream}


def enter_session(asked: object) -> dict[str, Any]:
    """Return how to enter the session's host; its token is valid once."""
    if not isinstance(asked, Mapping):
        raise ValueError("give the session's id as 'session' and its token as 'token'")
    identifier = str(asked.get("session"))
    with _lock:
        session = _begun.get(identifier)
        if session is None or not compare_digest(session.token, str(asked.get("token"))):
            raise ValueError(f"there is no session {identifier} with this token, or it was already entered")
        del _begun[identifier]
    return {
        "target": enter.target(session.host),
        "document": session.document,
        "values": dict(session.values),
    }


def reset() -> None:
    with _lock:
        _begun.clear()
