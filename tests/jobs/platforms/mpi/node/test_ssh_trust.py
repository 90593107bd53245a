"""Nodes of one cluster let each other in, and nobody else; jobs run as one user with keys of their own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slipway.containers.runtime.launch.supervise import Metadata, is_taken_back
from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.jobs.platforms.mpi.node.instance import Instance
from slipway.jobs.platforms.mpi.node.job_credentials import (
    OpenMetadata,
    RenewedCredentials,
    close_metadata,
    rules,
)
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.platforms.mpi.node.ssh_trust import (
    USER_KEY,
    User,
    authority_seed,
    establish,
    private_key_text,
    public_key_text,
)
from slipway.jobs.words.errors import SlipwayError
from tests.containers.instance_metadata import INTERRUPTION, instance_metadata
from tests.jobs.platforms.mpi.node.conftest import SECRET, SETUP, Start
from tests.local_server import serving

OTHER = "o" * 64
HERE, THERE = "127.0.0.1", "127.0.0.2"


def test_a_node_enters_another_without_a_password_and_without_a_question(start: Start) -> None:
    one, two = start(HERE), start(THERE)
    one.knows([one.member, two.member])
    done = one.ssh(two.member.name, "echo arrived")
    assert (done.returncode, done.stdout) == (0, "arrived\n"), done.stderr


def test_a_machine_that_only_takes_the_place_of_a_node_is_never_spoken_to(start: Start) -> None:
    one, impostor = start(HERE), start(THERE, OTHER)
    one.knows([one.member, impostor.member])
    done = one.ssh(impostor.member.name, "true")
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_who_does_not_know_the_secret_is_not_let_in(start: Start) -> None:
    """This holds even for one that trusts the node's host key."""
    one, stranger = start(HERE), start(THERE, OTHER)
    stranger.knows([one.member])
    shutil.copy(one.where.own / "known_hosts", stranger.where.own / "known_hosts")
    done = stranger.ssh(one.member.name, "true")
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_a_certificate_of_another_node_does_not_make_a_host_that_node(start: Start) -> None:
    """The names in a host's certificate are its own."""
    one, two = start(HERE), start(THERE)
    renamed = one.where.host_addresses.read_text().replace(HERE, THERE)
    one.where.host_addresses.write_text(renamed)
    done = one.ssh(one.member.name, "true")
    assert two.member.address == THERE
    assert "Certificate invalid: name is not a listed principal" in done.stderr


def test_private_keys_are_their_owners_alone_and_in_memory_and_the_authority_is_forgotten(
    start: Start,
) -> None:
    one = start(HERE)
    texts = {path: path.read_text(errors="replace") for path in one.where.root.rglob("*") if path.is_file()}
    private = [path for path, text in texts.items() if "PRIVATE KEY" in text]
    assert len(private) == 2  # of the host and of the user
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    assert all(path.is_relative_to(one.where.keys) for path in private)
    body = private_key_text(authority_seed(SECRET)).splitlines()[2]
    assert not [path for path, text in texts.items() if body in text or SECRET in text]
    same, again, other = (public_key_text(authority_seed(secret)) for secret in (SECRET, SECRET, OTHER))
    assert same == again != other


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_job_cannot_put_a_link_where_root_signs_its_certificate_again(tmp_path: Path) -> None:
    """Otherwise root would write to, and give away, any file that the link names."""
    where, jobs_user = NodePaths(root=tmp_path), User(name="slipway", uid=64001, gid=64001, home="/")
    for _ in range(2):
        establish(where, SECRET, ["ip-10-0-0-1"], jobs_user)
    key = where.keys / USER_KEY
    assert (key.stat().st_uid, key.stat().st_gid, key.stat().st_mode & 0o777) == (0, 64001, 0o440)
    for folder in (key.parent, where.keys):
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (0, 0o755)
    others = [path for path in key.parent.iterdir() if path != key]
    assert {(path.name, path.stat().st_uid) for path in others} == {
        ("id_ed25519.pub", 0),
        ("id_ed25519-cert.pub", 0),
    }


# A job's user is an ordinary one, on AWS and in a namespace whose root may do less.


def test_a_root_that_may_not_lift_limits_runs_jobs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a namespace of the yard a limit cannot be raised, and no node answered."""

    def refused(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    own = User(name="me", uid=os.geteuid(), gid=os.getegid(), home=str(tmp_path))
    monkeypatch.setattr(job_credentials, "cluster_user", lambda: own)
    monkeypatch.setattr(resource, "setrlimit", refused)
    monkeypatch.setenv("HOME", "/elsewhere")
    assert job_credentials.become_cluster_user() == own
    assert os.environ["HOME"] == str(tmp_path)


# A job gets its own role's credentials, and none of the node's.
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TOKEN = "token"


def given(end: datetime, key: str = "AKIA") -> dict[str, str]:
    return {"AccessKeyId": key, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}


@pytest.fixture
def address() -> Iterator[str]:
    role = RenewedCredentials(lambda: given(NOW + timedelta(hours=1)), lambda: NOW)
    with serving(job_credentials._handler(TOKEN, role)) as address:
        yield address


def ask(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": token})  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return dict(json.loads(answer.read()))


def test_credentials_are_kept_until_shortly_before_they_end() -> None:
    made: list[dict[str, str]] = []
    now = [NOW]

    def assume() -> dict[str, str]:
        made.append(given(now[0] + timedelta(hours=1), f"key {len(made)}"))
        return made[-1]

    role = RenewedCredentials(assume, lambda: now[0])
    assert role.credentials() is role.credentials()
    now[0] += timedelta(minutes=51)
    assert role.credentials()["AccessKeyId"] == "key 1"


def test_who_has_the_token_gets_the_credentials_and_nobody_else_anything(address: str) -> None:
    assert ask(f"{address}{job_credentials.PATH}", TOKEN)["AccessKeyId"] == "AKIA"
    for path, token in ((job_credentials.PATH, "another"), ("/", TOKEN)):
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            ask(f"{address}{path}", token)
        refused.value.close()


def test_only_root_reaches_the_metadata_service() -> None:
    assert "meta skuid != { 0 } ip daddr 169.254.169.254 reject" in rules()
    assert "meta skuid != { 0 } ip6 daddr fd00:ec2::254 reject" in rules()
    assert "meta skuid != { 0, 112 } ip daddr 169.254.169.254 reject" in rules([112])


def test_a_node_that_cannot_close_it_takes_no_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OpenMetadata, match="jobs cannot be kept from the node's own role") as refused:
        close_metadata()
    assert "nftables" in refused.value.hint


def test_a_job_s_sdks_are_told_where_to_ask() -> None:
    told = job_credentials.variables(NodePaths(root=Path("/")))
    assert told[job_credentials.URI_VARIABLE] == "http://127.0.0.1:9911/credentials"
    assert told[job_credentials.TOKEN_VARIABLE] == "/run/slipway-node/job-credentials-token"


def test_a_launcher_hears_from_root_that_ec2_takes_the_node_back(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs cannot reach the metadata service, which alone tells it."""
    told = job_credentials.variables(NodePaths(root=Path("/")))
    assert told["AWS_EC2_METADATA_SERVICE_ENDPOINT"] == "http://127.0.0.1:9911"
    with instance_metadata() as of_the_node:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", of_the_node.endpoint)
        assert not is_taken_back(address)
        of_the_node.documents["/latest/meta-data/iam/security-credentials/"] = "the node's role"
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            Metadata(address).get("/latest/meta-data/iam/security-credentials/")
        refused.value.close()
        of_the_node.documents[INTERRUPTION] = '{"action": "terminate", "time": "2026-11-26T12:00:00Z"}'
        assert is_taken_back(address)
    assert not is_taken_back(address), "no answer is no notice"


def test_root_touches_nothing_in_the_folder_that_is_the_jobs_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A job that wins the race against root would be given the owner of the file that its link names."""
    where = NodePaths(root=tmp_path)
    own = Instance(id="i-0a", address="127.0.0.1")
    touched: list[Path] = []
    monkeypatch.setattr(job_credentials, "read_instance", lambda: own)
    monkeypatch.setattr(job_credentials, "PORT", 0)
    monkeypatch.setattr(job_credentials, "_started", threading.Lock())
    monkeypatch.setattr(shutil, "chown", lambda path, *_: touched.append(path))
    job_credentials.hand_out(where, SETUP, User(name="slipway", uid=1, gid=1, home="/"))
    assert touched
    assert not [path for path in touched if path.is_relative_to(where.run)]


def test_a_node_whose_port_is_taken_says_so_until_it_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else it would join at its second try, and its jobs would find no credentials."""
    monkeypatch.setattr(job_credentials, "read_instance", lambda: Instance(id="i-0a", address="127.0.0.1"))
    monkeypatch.setattr(job_credentials, "_started", threading.Lock())
    monkeypatch.setattr(shutil, "chown", lambda *_: None)
    user = User(name="slipway", uid=1, gid=1, home="/")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(job_credentials, "PORT", port)
        for _ in range(2):
            with pytest.raises(SlipwayError, match=f"port {port} of 127.0.0.1: Address already"):
                job_credentials.hand_out(NodePaths(root=tmp_path), SETUP, user)
    job_credentials.hand_out(NodePaths(root=tmp_path), SETUP, user)
    socket.create_connection(("127.0.0.1", port)).close()


def test_a_job_of_an_imitated_machine_asks_at_that_machines_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Instance(id="i-0a", address="127.41.0.4")
    monkeypatch.setattr(job_credentials, "read_instance", lambda: own)
    told = job_credentials.variables(NodePaths(root=tmp_path))
    assert told[job_credentials.URI_VARIABLE] == "http://127.41.0.4:9911/credentials"
