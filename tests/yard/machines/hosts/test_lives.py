"""Hosts come and go cleanly, and a command for a host runs there or nowhere."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.jobs.cli.cli import cli
from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import enter
from slipway.yard.machines.hosts.enter import CannotEnter
from slipway.yard.machines.hosts.inside import cgroups
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from tests.waiting import LOOK_AGAIN_S
from tests.yard.leftovers import has_ended
from tests.yard.machines.hosts.conftest import (
    PATIENCE_S,
    Cluster,
    Site,
    Vpc,
    new_site,
)

# A command for a host runs there or nowhere, wherever it is called from.


def door_of(site: Site, host: str) -> dict[str, Any]:
    found: dict[str, Any] = control(site.yard, "POST", "/enter-host", {"host": host})
    return found


def ssh(site: Site, host: str, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [SLIPWAY, "yard", "ssh", host, "--", *words],
        cwd=folder,
        env={**kept, "SLIPWAY_YARD_HOME": str(site.yard.home), **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("folder", ["/", "/tmp"])
def test_a_command_runs_in_the_host_from_whatever_folder_it_is_called_whatever_the_shell_says_of_tiers(
    site: Site, cluster: Cluster, folder: str
) -> None:
    host = cluster.members[0]
    entered = ssh(site, host, Path(folder), "hostname", "-s", **{TIER_VARIABLE: "plain"})
    assert (entered.stdout.strip(), entered.returncode) == (host, 0)


def test_a_process_that_took_over_the_number_of_a_host_s_or_has_ended_is_not_entered(
    site: Site, cluster: Cluster
) -> None:
    door = {**door_of(site, cluster.members[0]), "process": os.getpid()}
    refused = f"nothing was run: process {os.getpid()} does not belong to this host"
    for enters in (enter.enter_command, enter.network_command):
        with pytest.raises(CannotEnter, match=refused):
            enters(door, ["true"])
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(CannotEnter, match="nothing was run"):
        enter.enter_command({**door, "process": ended.pid}, ["true"])


@pytest.mark.parametrize("said", [{}, {"tier": "unheard-of"}])
def test_a_yard_that_does_not_say_how_a_host_was_made_is_not_believed(
    site: Site, cluster: Cluster, said: dict[str, str]
) -> None:
    door = {key: value for key, value in door_of(site, cluster.members[0]).items() if key != "tier"}
    for enters in (enter.enter_command, enter.network_command):
        with pytest.raises(CannotEnter, match=r"does not say how host .* nothing was run"):
            enters({**door, **said}, ["true"])


# A detached service: it goes on when its starter has left.
SERVICE = ("sh", "-c", 'setsid -f bash -c "$0" >/dev/null 2>&1')
# A service of the host: systemd unmounts the host's mounts before it stops such a process.
UNIT = ("systemd-run", "--property=RequiresMountsFor=/shared", "bash", "-c")
GOODBYE = """
trap 'sleep 1; echo goodbye >/shared/goodbye; exit' TERM
echo up >/shared/hello
sleep infinity &
wait
"""
SLIPWAY = str(Path(sys.executable).parent / "slipway")
SHARED = "tmp/batch/file-systems/fs-0123456789abcdef0"


def start(vpc: Vpc, nodes: int) -> list[str]:
    group = vpc.security_group("members")
    vpc.let_in(group, group)
    return vpc.start("nodes", group, nodes)


def instances(vpc: Vpc) -> dict[str, str]:
    return {host["name"]: host["instance"] for host in vpc.hosts("nodes")}


def states_until_terminated(site: Site, instance: str) -> Iterator[str]:
    ec2 = site.client("ec2")
    state, deadline = "", time.monotonic() + PATIENCE_S
    while state != "terminated":
        assert time.monotonic() < deadline, f"it is {state}"
        found = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        state = found["State"]["Name"]
        yield state
        time.sleep(LOOK_AGAIN_S)


def test_a_killed_host_is_replaced_and_the_others_live_on(site: Site, own_vpc: Vpc) -> None:
    killed, stays = start(own_vpc, 2)
    before = instances(own_vpc)
    site.on(stays, "touch", "/tmp/here")
    control(site.yard, "POST", "/kill-host", {"host": before[killed]})
    site.until(lambda: before[killed] not in instances(own_vpc).values() and len(instances(own_vpc)) == 2)
    site.settle()
    assert {host["state"] for host in own_vpc.hosts("nodes")} == {"running"}
    assert site.on(before[stays], "test", "-e", "/tmp/here").code == 0
    state = site.client("ec2").describe_instances(InstanceIds=[before[killed]])["Reservations"]
    assert state[0]["Instances"][0]["State"]["Name"] == "terminated"


def test_a_dead_host_stays_dead_while_its_group_may_not_replace_it(site: Site, own_vpc: Vpc) -> None:
    (name,) = start(own_vpc, 1)
    scaling, group = site.client("autoscaling"), own_vpc.groups[0]
    scaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["ReplaceUnhealthy"])
    control(site.yard, "POST", "/kill-host", {"host": name})
    site.until(lambda: own_vpc.hosts("nodes")[0]["state"] == "dead")
    (found,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    assert [instance["HealthStatus"] for instance in found["Instances"]] == ["Unhealthy"]


def test_a_group_that_grows_gets_hosts_and_a_terminated_one_hears_of_it(site: Site, own_vpc: Vpc) -> None:
    (name,) = start(own_vpc, 1)
    has_systemd = own_vpc.hosts("nodes")[0]["boot"] == "systemd"
    site.on(name, *(UNIT if has_systemd else SERVICE), GOODBYE)
    shared = site.yard.home / SHARED
    site.until((shared / "hello").exists)
    (instance,) = instances(own_vpc).values()
    scaling, group = site.client("autoscaling"), own_vpc.groups[0]
    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
    site.settle()
    assert [host["state"] for host in own_vpc.hosts("nodes")] == ["running"] * 2
    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=0)
    # It may write until it is off, so it does not count as gone before.
    assert [*dict.fromkeys(states_until_terminated(site, instance))] == ["shutting-down", "terminated"]
    site.settle()
    assert own_vpc.hosts("nodes") == []
    assert (shared / "goodbye").read_text(encoding="utf-8") == "goodbye\n"


@pytest.fixture
def short_lived(tier: str, tmp_path: Path) -> Iterator[Site]:
    """The test itself ends this yard."""
    yield from new_site(tmp_path, {})


def processes_of(site: Site, name: str) -> set[int]:
    """List a host's processes as this machine counts them, with the one that holds the host."""
    first = int(control(site.yard, "POST", "/enter-host", {"host": name})["process"])
    found, holder = {first, *_processes_with(first)}, first
    while holder != pid_of(site):
        found.add(holder)
        holder = _parent(holder)
    return found


def _processes_with(first: int) -> set[int]:
    """Return the processes of one PID namespace."""
    space = Path(f"/proc/{first}/ns/pid").readlink()
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "ns/pid").readlink() == space:
                found.add(int(entry.name))
    return found


def _parent(process_id: int) -> int:
    stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def pid_of(site: Site) -> int:
    state = process.running(folder=site.yard.home)
    assert state
    return state.pid


def machine() -> tuple[str, str]:
    """Return the lists in which a left mount or interface would show."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return Path("/proc/self/mounts").read_text(encoding="utf-8"), links


def groups_of(yard: int) -> list[Path]:
    """Find one yard's control groups; other yards have others."""
    return [*Path("/sys/fs/cgroup").glob(f"**/{cgroups.name(yard, '*')}")]


@pytest.mark.parametrize("end", ["down", "kill -9"])
def test_nothing_is_left_of_hosts_when_their_yard_is_gone(short_lived: Site, end: str) -> None:
    before, yard, vpc = machine(), pid_of(short_lived), short_lived.vpc()
    (name,) = start(vpc, 1)
    short_lived.on(name, *SERVICE, "sleep infinity")
    assert bool(groups_of(yard)) is (vpc.hosts("nodes")[0]["boot"] == "systemd")
    left = processes_of(short_lived, name)
    assert len(left) >= 5  # the network's, the host's, what stands between, sshd, sleep
    if end == "kill -9":
        os.kill(yard, signal.SIGKILL)
    else:
        process.down(folder=short_lived.yard.home)
        assert not short_lived.yard.home.exists()
    assert all(has_ended(each) for each in left)
    assert (machine(), groups_of(yard)) == (before, [])


def test_the_command_line_lists_enters_and_kills_hosts_and_carries_a_terminal_into_them(
    site: Site, own_vpc: Vpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = start(own_vpc, 1)
    monkeypatch.setenv("SLIPWAY_YARD_HOME", str(site.yard.home))
    assert name in CliRunner().invoke(cli, ["yard", "hosts"]).stdout
    entered = subprocess.run(
        [SLIPWAY, "yard", "ssh", name, "--", "sh", "-c", 'printf "%s|" "$@"; exit 7', "x", "a b", "$(id)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (entered.stdout, entered.returncode) == ("a b|$(id)|", 7)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(SLIPWAY, [SLIPWAY, "yard", "ssh", name])  # noqa: S606 - as a person would call it
    said = b""
    os.write(terminal, b"test -t 0 && echo on-$(hostname -s); exit\n")
    with suppress(OSError):  # the terminal's end, when the shell is gone
        while chunk := os.read(terminal, 4096):
            said += chunk
    assert f"on-{name}".encode() in said
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert f"killed host {name}" in CliRunner().invoke(cli, ["yard", "kill-node", name]).stderr
    wrong = CliRunner().invoke(cli, ["yard", "kill-node", "nobody"])
    assert "'nobody' matches 0 hosts" in str(wrong.exception)
