"""A host's instance metadata service, version 2 only, at 169.254.169.254 in the host's network.

The host's cloud-init uses another port, without a token and without credentials: it requests a token only on
EC2's hardware, and detects that it is in a container.

To add a category: a line of _tree. Paths: EC2 user guide, "Instance metadata categories".
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slipway.yard.endpoint import ACCOUNT
from slipway.yard.errors import ApiError
from slipway.yard.machines.hosts.host_store import Host, HostInstance
from slipway.yard.permissions import keys, roles
from slipway.yard.permissions.keys import RoleSession

LONGEST_TOKEN_S = 21600
CREDENTIALS_LAST = timedelta(hours=6)
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
_VERSION = re.compile(r"^/+\d{4}-\d{2}-\d{2}(?=/)")  # a version of the service; all answer as the latest
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - a header's name
# The service's message for a role whose trust policy does not name EC2.
NOT_ASSUMED = (
    "EC2 cannot assume the role {}. Please see documentation at "
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc."
)


def serve(listener: socket.socket, host: Host, *, is_open: bool = False) -> None:
    """Serve until the listener is closed; only that host's processes reach it."""
    handler = type("Handler", (_Handler,), {"host": host, "tokens": {}, "is_open": is_open})
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    name = f"metadata {host.instance.name}"
    threading.Thread(target=_accept, args=(server,), name=name, daemon=True).start()


def _accept(server: ThreadingHTTPServer) -> None:
    """Serve until the socket is closed, without serve_forever, which would poll twice a second."""
    while True:
        try:
            connection, address = server.socket.accept()
        except OSError:
            return
        server.process_request(connection, address)


class _Handler(BaseHTTPRequestHandler):
    host: Host
    tokens: dict[str, float]  # token -> its end, on the monotonic clock
    is_open: bool  # needs no token and gives no credentials
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        lifetime = self.headers.get(TTL_HEADER, "")
        is_valid = lifetime.isdigit() and 1 <= int(lifetime) <= LONGEST_TOKEN_S
        if self.path.rstrip("/") != TOKEN_PATH:
            self._answer(405)
        elif not is_valid or "X-Forwarded-For" in self.headers:
            self._answer(400 if not is_valid else 403)
        else:
            token = base64.b64encode(secrets.token_bytes(40)).decode()
            self.tokens[token] = time.monotonic() + int(lifetime)
            self._answer(200, token, {TTL_HEADER: lifetime})

    def do_GET(self) -> None:
        token = self.headers.get(TOKEN_HEADER, "")
        if not self.is_open and self.tokens.get(token, 0.0) < time.monotonic():
            self._answer(401)
            return
        tree = _tree(self.host.instance)
        if self.is_open:
            tree["latest"]["meta-data"].pop("iam", None)
        found = _read(tree, _VERSION.sub("/latest", self.path))
        self._answer(404 if found is None else 200, found or "")

    def _answer(self, status: int, found: str | bytes = "", headers: Mapping[str, str] | None = None) -> None:
        body = found.encode() if isinstance(found, str) else found
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "text/plain"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: SDKs ask often."""


def _tree(instance: HostInstance) -> dict[str, Any]:
    role = instance.role
    profile = json.dumps({"Code": "Success", "InstanceProfileArn": instance.profile_arn})
    iam = {"info": profile, "security-credentials": {role: lambda: _credentials(instance)}} if role else {}
    keys_pushed = _keys_of(instance.id)
    meta = {
        "ami-id": instance.image,
        "hostname": instance.hostname,
        "iam": iam,
        "instance-id": instance.id,
        "instance-life-cycle": instance.life_cycle,
        "instance-type": instance.instance_type,
        "local-hostname": instance.hostname,
        "local-ipv4": instance.address,
        "managed-ssh-keys": {"active-keys": keys_pushed} if keys_pushed else {},
        "placement": {"availability-zone": instance.zone, "region": instance.region},
        "spot": _interruption_entries(instance.id),
        "services": {"domain": "amazonaws.com", "partition": "aws"},
    }
    latest: dict[str, Any] = {
        "dynamic": {"instance-identity": {"document": _document(instance)}},
        "meta-data": {name: value for name, value in meta.items() if value},
    }
    if instance.user_data:
        latest["user-data"] = base64.b64decode(instance.user_data)
    return {"latest": latest}


def _read(tree: Any, path: str) -> str | bytes | None:
    """Return the value at the path; a folder as its list of names; None if there is nothing."""
    for step in path.partition("?")[0].split("/"):
        if step:
            tree = tree.get(step) if isinstance(tree, Mapping) else None
    if isinstance(tree, Mapping):
        return "\n".join(f"{name}/" if isinstance(value, Mapping) else name for name, value in tree.items())
    if callable(tree):
        return str(tree())
    return tree if tree is None or isinstance(tree, bytes) else str(tree)


def _credentials(instance: HostInstance) -> str:
    """Return credentials of the host's role."""
    try:
        session = session_of(instance)
    except ApiError:
        message = NOT_ASSUMED.format(instance.role)
        return json.dumps({"Code": "AssumeRoleUnauthorizedAccess", "Message": message})
    key = keys.issue(session=session, lasts_s=CREDENTIALS_LAST.total_seconds())
    now = datetime.now(UTC)
    given = {
        "Code": "Success",
        "LastUpdated": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Type": "AWS-HMAC",
        "AccessKeyId": key.access_key_id,
        "SecretAccessKey": key.secret,
        "Token": key.token,
        "Expiration": (now + CREDENTIALS_LAST).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps(given)


def _document(instance: HostInstance) -> str:
    document = {
        "accountId": ACCOUNT,
        "availabilityZone": instance.zone,
        "imageId": instance.image,
        "instanceId": instance.id,
        "instanceType": instance.instance_type,
        "privateIp": instance.address,
        "region": instance.region,
    }
    return json.dumps(document)


# The session with which EC2 assumes an instance's role.
EC2 = "ec2.amazonaws.com"


def session_of(instance: HostInstance) -> RoleSession:
    """Return the session, bound to instance and VPC; raise ApiError if the role does not trust EC2."""
    return replace(
        roles.assume(instance.role, EC2, instance.id),
        vpc=instance.vpc,
        address=instance.address,
        instance_arn=f"arn:aws:ec2:{instance.region}:{ACCOUNT}:instance/{instance.id}",
    )


# Spot interruption notices.
_ends_at: dict[str, datetime] = {}  # instance id -> when EC2 reclaims it


def announce_interruption(instance_id: str, ends_at: datetime) -> None:
    _ends_at[instance_id] = ends_at


def interruption_of(instance_id: str) -> datetime | None:
    return _ends_at.get(instance_id)


def _interruption_entries(instance_id: str) -> dict[str, Any]:
    """Return the entries of meta-data/spot; none before a notice."""
    ends_at = _ends_at.get(instance_id)
    if ends_at is None:
        return {}
    moment = ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "instance-action": json.dumps({"action": "terminate", "time": moment}),
        "termination-time": moment,
    }


# Public keys that EC2 Instance Connect pushed; the instance's metadata shows them for a minute.
KEY_LASTS_S = 60.0
_keys: dict[tuple[str, str], tuple[str, float]] = {}  # (instance id, user) -> (key, its end)


def push_key(instance_id: str, user: str, public_key: str) -> None:
    _keys[instance_id, user] = (public_key, time.monotonic() + KEY_LASTS_S)


def _keys_of(instance_id: str) -> dict[str, str]:
    now = time.monotonic()
    return {
        user: key
        for (owner, user), (key, until) in list(_keys.items())
        if owner == instance_id and now < until
    }


def reset() -> None:
    _keys.clear()
    _ends_at.clear()
