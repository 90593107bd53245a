"""Without namespaces hosts are plain processes, and the yard says what is not enforced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import enter
from slipway.yard.machines.hosts.enter import CannotEnter
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from tests.yard.leftovers import has_ended
from tests.yard.machines.hosts.conftest import FILES, Site, new_site
from tests.yard.machines.hosts.test_run_command import Commands


@pytest.fixture
def plain_site(tmp_path: Path) -> Iterator[Site]:
    yield from new_site(tmp_path, {TIER_VARIABLE: "plain"})


def run(site: Site, host: dict[str, Any], *lines: str) -> dict[str, Any]:
    commands = Commands(site, host["instance"])
    return commands.ended(commands.shell(*lines))


def test_hosts_without_namespaces_run_commands_from_folders_of_their_own(plain_site: Site) -> None:
    vpc = plain_site.vpc()
    first, second = vpc.start("nodes", vpc.security_group("members"), 2)
    assert (first, second) == ("ip-127-41-0-4", "ip-127-41-0-5")
    one, other = vpc.hosts("nodes")
    assert {each["firewall"] for each in (one, other)} == {"none"}
    said = run(plain_site, one, "cat /etc/slipway/node.json", 'echo "$SLIPWAY_NODE_ROOT"')
    shared = plain_site.yard.home / "tmp/batch/file-systems" / FILES["id"]
    assert str(shared) in said["StandardOutputContent"]
    assert one["instance"] in said["StandardOutputContent"]
    ask = 'curl -s -o /dev/null -w "%{http_code}" $AWS_EC2_METADATA_SERVICE_ENDPOINT/latest/meta-data/'
    assert run(plain_site, other, ask)["StandardOutputContent"] == "401"
    status = control(plain_site.yard, "GET", "/status")["hosts"]
    assert any(line.startswith("not enforced: security groups") for line in status)
    assert any(line.startswith("homes: not enforced") for line in status)
    assert any(line.startswith("not enforced: jobs: a host has one user") for line in status)
    door = control(plain_site.yard, "POST", "/enter-host", {"host": first})
    with pytest.raises(CannotEnter, match="has no network of its own") as refused:
        enter.network_command(door, ["true"])
    assert refused.value.hint == "its ports are this machine's: use 127.0.0.1"


def test_nothing_is_left_of_plain_hosts(plain_site: Site) -> None:
    vpc = plain_site.vpc()
    vpc.start("nodes", vpc.security_group("members"), 1)
    (host,) = vpc.hosts("nodes")
    said = run(plain_site, host, "setsid -f sleep infinity >/dev/null 2>&1", "pgrep -f 'sleep infinity' -n")
    left = int(said["StandardOutputContent"])
    process.down(folder=plain_site.yard.home)
    assert has_ended(left)
    assert not plain_site.yard.home.exists()
    with socket.socket() as listener:  # its sshd has released the port
        listener.bind((host["address"], 2222))
