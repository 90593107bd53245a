"""Gives jobs a role of their own in AWS: a node hands its credentials to the user that jobs run as.

The node's own role can read the secret from which all nodes derive their trust. So the metadata service,
which gives out that role, is closed to everybody but root, and root gives out the narrower role here. The
SDKs know the two variables ("Container credential provider" of their reference guide). The notice that EC2
takes a Spot instance back, which launchers ask the metadata service for, root passes on to everybody.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from slipway.containers.runtime.contract.settings import METADATA_VARIABLE
from slipway.containers.runtime.launch.supervise import NOTICES, TOKEN_PATH
from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import client
from slipway.jobs.platforms.mpi.node.instance import metadata, read_instance
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup, node_paths
from slipway.jobs.platforms.mpi.node.ssh_trust import User, cluster_user
from slipway.jobs.platforms.on_nodes import SECRET, write_whole
from slipway.jobs.words.errors import SlipwayError

URI_VARIABLE, TOKEN_VARIABLE = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
PORT = 9911
PATH = "/credentials"
TABLE = "slipway_jobs"
CONNECT_USER = "ec2-instance-connect"  # of the package of this name in Ubuntu's AMIs
_CLOSED = {"ip": "169.254.169.254", "ip6": "fd00:ec2::254"}
_FRESH = timedelta(minutes=10)  # SDKs may ask as late as five minutes before the end
_LASTS_SECONDS = 3600  # the longest that a role may get for another one
_NFT_SECONDS = 30.0

Credentials = Mapping[str, str]
_started = threading.Lock()  # taken once the server listens, and never released


class OpenMetadata(SlipwayError):
    """Jobs could reach the node's own role, so the node accepts none."""


def variables(where: NodePaths) -> dict[str, str]:
    """Return the variables by which a job's SDKs find their credentials, and its launchers the notice."""
    server = f"http://{_address(where)}:{PORT}"
    told = {URI_VARIABLE: f"{server}{PATH}", TOKEN_VARIABLE: str(_token_file(where))}
    return {**told, **({METADATA_VARIABLE: server} if where.is_machine else {})}


def _address(where: NodePaths) -> str:
    """Return the address of the credentials; imitated machines share one loopback, with an address each."""
    return "127.0.0.1" if where.is_machine else read_instance().address


def rules(system_users: Sequence[int] = ()) -> str:
    """Return the rules for `nft -f`: only root and these system users reach the metadata service."""
    let_in = ", ".join(map(str, (0, *system_users)))
    lines = "".join(
        f"    meta skuid != {{ {let_in} }} {family} daddr {address} reject\n"
        for family, address in _CLOSED.items()
    )
    chain = f"  chain output {{\n    type filter hook output priority -10; policy accept;\n{lines}  }}\n"
    return f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{chain}}}\n"


def close_metadata() -> None:
    """Close the metadata service to all but root and the user that sshd asks for keys there, or refuse."""
    try:
        # EC2 Instance Connect's: sshd runs its program as that user, and jobs never do.
        users = [pwd.getpwnam(CONNECT_USER).pw_uid]
    except KeyError:
        users = []
    try:
        ran = subprocess.run(
            ["nft", "-f", "-"],
            input=rules(users),
            text=True,
            capture_output=True,
            check=False,
            timeout=_NFT_SECONDS,
        )
        said = ran.stderr.strip() if ran.returncode else ""
    except OSError as error:
        said = str(error)
    if said:
        raise OpenMetadata(
            f"jobs cannot be kept from the node's own role: nft says: {said[:200]}",
            hint="bake the AMI again: its lock names the package nftables",
        )


def hand_out(where: NodePaths, setup: Setup, user: User) -> None:
    """Serve the job role's credentials to the user while this process lives; repeated calls do nothing."""
    if _started.locked():
        return
    token, path = secrets.token_hex(32), _token_file(where)
    write_whole(path, token, SECRET)
    shutil.chown(path, user.uid, user.gid)
    role = RenewedCredentials(lambda: _assume(setup))
    try:
        server = ThreadingHTTPServer((_address(where), PORT), _handler(token, role))
    except OSError as error:
        raise SlipwayError(
            f"jobs would have no credentials: port {PORT} of {_address(where)}: {error.strerror}",
            hint=f"end what listens there (ss -ltnp 'sport = :{PORT}' names it); this node then joins",
        ) from error
    _started.acquire()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="job credentials", daemon=True).start()


class RenewedCredentials:
    """Keeps credentials until shortly before they end, and then gets new ones."""

    def __init__(
        self, assume: Callable[[], Credentials], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._assume, self._now = assume, now
        self._lock = threading.Lock()
        self._held: Credentials = {}

    def credentials(self) -> Credentials:
        with self._lock:
            if not self._held or datetime.fromisoformat(self._held["Expiration"]) - self._now() < _FRESH:
                self._held = self._assume()
            return self._held


def _assume(setup: Setup) -> Credentials:
    answer = client("sts", setup.region).assume_role(
        RoleArn=setup.job_role_arn, RoleSessionName=f"jobs-{setup.cluster}", DurationSeconds=_LASTS_SECONDS
    )
    given = answer["Credentials"]
    return {
        "AccessKeyId": given["AccessKeyId"],
        "SecretAccessKey": given["SecretAccessKey"],
        "Token": given["SessionToken"],
        "Expiration": given["Expiration"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _handler(token: str, role: RenewedCredentials) -> type[BaseHTTPRequestHandler]:
    class JobCredentials(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            is_asked = self.path == TOKEN_PATH  # whatever it is, no notice needs it
            self._answer(200 if is_asked else 405, b"none")

        def do_GET(self) -> None:
            if self.path in NOTICES:
                self._answer(*_notice(self.path))
                return
            given = self.headers.get("Authorization", "")
            if self.path != PATH or not compare_digest(given.encode(), token.encode()):
                self._say(403, {"code": "AccessDenied", "message": "this is for jobs of the node"})
                return
            try:
                self._say(200, role.credentials())
            except Exception as error:  # noqa: BLE001 - whatever STS says, the SDK that asks repeats it
                self._say(503, {"code": "RoleNotAssumed", "message": str(error)[:200]})

        def _say(self, status: int, said: Mapping[str, str]) -> None:
            self._answer(status, json.dumps(said).encode(), "application/json")

        def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: SDKs ask often."""

    return JobCredentials


def _notice(path: str) -> tuple[int, bytes]:
    """Ask the metadata service, which only root reaches; return what it says as it would."""
    try:
        found = metadata().get(path)
    except (OSError, HTTPException, ValueError):
        return 503, b""
    return (404, b"") if found is None else (200, found.encode())


def _token_file(where: NodePaths) -> Path:
    """Return a file that jobs read and cannot replace: root gives it to their user, through whatever link."""
    return where.state / "job-credentials-token"


# Changes from root, as which Systems Manager and systemd run us, to the user that jobs run as.


def become_cluster_user() -> User:
    """Drop root and the node's role for good, so that nothing of a job's runs with either."""
    user, where = cluster_user(), node_paths()
    # EFA locks memory. systemd's limit for a service is too low; over ssh, PAM raises it.
    with suppress(ValueError):  # the root of a user namespace, as in a yard, may not
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if is_another := os.geteuid() != user.uid:
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
    if is_another or _token_file(where).exists():  # in a yard without users: after the node has joined
        os.environ.update(variables(where))
        aws.forget_credentials()  # those of the node's own role
    os.environ["HOME"] = user.home
    os.environ["USER"] = user.name
    return user
