"""A host of the yard is a machine of its own in its VPC, behind its security groups."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.mpi.node import job_credentials
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts.host_processes import NETWORK_MODULE
from slipway.yard.machines.settings import CHECKOUT
from slipway.yard.state import read_state
from tests.yard.asking import client_of
from tests.yard.cloudformation.resources.world import TRUST
from tests.yard.machines.hosts.conftest import FILES, METADATA, Cluster, Said, Site, Vpc, permission
from tests.yard.machines.hosts.test_run_command import Commands
from tests.yard.services.imagebuilder.tiny import write_root

SSH, CLOSED = 22, 9999  # nobody listens at the second
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.7).close()
    print("open")
except OSError as error:
    print(type(error).__name__)
"""
ASK = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}")


def reach(site: Site, source: str, address: str, port: int) -> str:
    return site.on(source, "python3", "-c", CONNECT, address, str(port)).out.strip()


def ssh(site: Site, source: str, address: str, *words: str) -> Said:
    return site.on(source, "ssh", f"slipway@{address}", *words)


def test_a_host_has_a_name_an_address_and_a_disk_of_its_own(site: Site, cluster: Cluster) -> None:
    first, second = cluster.members
    for name in cluster.members:
        address = cluster.address(name)
        assert name == f"ip-{address.replace('.', '-')}"
        assert site.on(name, "hostname", "-s").out.strip() == name
        assert address in site.on(name, "ip", "-4", "-o", "addr", "show", "eth0").out
        assert site.on(name, "getent", "ahostsv4", name).out.split()[0] == address
    for path in ("/tmp/trace", "/etc/trace", "/dev/shm/trace", "/run/trace"):
        assert site.on(first, "touch", path).code == 0
        assert site.on(second, "test", "-e", path).code == 1


def test_a_host_has_one_of_this_machine_s_processors(site: Site, cluster: Cluster) -> None:
    held = [
        site.on(name, "grep", "Cpus_allowed_list", "/proc/1/status").out.split()[1]
        for name in cluster.members
    ]
    assert all(each.isdigit() for each in held)
    assert len(set(held)) == min(2, len(os.sched_getaffinity(0)))  # neighbours take different ones


def test_user_data_runs_at_boot_its_output_is_kept_and_hosts_share_the_files_that_it_names(
    site: Site, cluster: Cluster
) -> None:
    first, second = cluster.members
    assert "user data ran on" in site.on(first, "cat", "/var/log/cloud-init-output.log").out
    log = (site.yard.home / "server.log").read_text(encoding="utf-8")
    assert re.search(rf"{first}: .*user data ran on {first}", log)
    assert json.loads(site.on(first, "cat", "/etc/slipway/node.json").out) == {"files": FILES}
    site.on(first, "sh", "-c", "echo shared >/shared/note")
    assert site.on(second, "cat", "/shared/note").out == "shared\n"
    assert (site.yard.home / "tmp/batch/file-systems" / FILES["id"] / "note").exists()


def test_members_of_a_security_group_reach_each_other_by_ssh_too_and_others_reach_nothing(
    site: Site, cluster: Cluster
) -> None:
    first, second = cluster.members
    address = cluster.address(second)
    assert reach(site, first, address, SSH) == "open"
    assert reach(site, first, address, CLOSED) == "ConnectionRefusedError"
    assert reach(site, cluster.outsider, address, CLOSED) == "TimeoutError"
    said = ssh(site, first, address, "hostname", "-s")
    assert (said.out.strip(), said.code) == (second, 0), said.errors
    refused = ssh(site, cluster.outsider, address, "hostname")
    assert (refused.code, refused.out) == (255, "")
    assert "timed out" in refused.errors
    said = site.on(first, "sshd", "-T")
    assert "usepam yes" in said.out.splitlines(), said  # as Ubuntu's does


def test_a_rule_opens_a_port_while_hosts_run_and_its_end_closes_it(site: Site, cluster: Cluster) -> None:
    address = cluster.address(cluster.members[0])
    cluster.vpc.let_in(cluster.group, cluster.outsiders, SSH)
    assert reach(site, cluster.outsider, address, SSH) == "open"
    assert reach(site, cluster.outsider, address, CLOSED) == "TimeoutError"
    cluster.vpc.shut_out(cluster.group, cluster.outsiders, SSH)
    assert reach(site, cluster.outsider, address, SSH) == "TimeoutError"


def network_processes(site: Site) -> list[int]:
    """Return the processes that hold the networks of VPCs; each is the child of one that the yard started."""
    state = read_state(site.yard.home)
    assert state
    parents = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found = re.search(r"^PPid:\t(\d+)$", status.read_text(encoding="utf-8"), re.MULTILINE)
            parents[int(status.parent.name)] = int(found[1]) if found else 0
    held = [pid for pid, parent in parents.items() if parents.get(parent) == state.pid]
    networks = [
        pid for pid in held if NETWORK_MODULE in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    ]
    assert networks
    return networks


def test_hosts_have_settled_only_when_their_new_rules_hold(site: Site, own_vpc: Vpc) -> None:
    group = own_vpc.security_group("ruled")
    (host,) = own_vpc.start("ruled", group, 1)
    networks = network_processes(site)
    for network in networks:
        os.kill(network, signal.SIGSTOP)  # a busy machine holds them up for a moment
    try:
        site.client("ec2").authorize_security_group_ingress(
            GroupId=group, IpPermissions=[permission(group, 80)]
        )
        assert not control(site.yard, "POST", "/await-hosts", {"timeout_s": 1})
    finally:
        for network in networks:
            os.kill(network, signal.SIGCONT)
    site.settle()
    assert site.on(host, "true").code == 0


def test_the_root_of_a_host_does_not_open_its_firewall(site: Site, cluster: Cluster, tier: str) -> None:
    """Not even a process of the host can; one that enters from this machine could."""
    if tier != "root":
        pytest.skip("there, what a host runs has no power over its network at all")
    instance = cluster.instance(cluster.members[0])
    for asked in ("/usr/sbin/nft flush ruleset", "echo 'flush ruleset' | nft -f -"):
        said = run(site, instance, asked)
        assert (said["Status"], "Operation not permitted" in said["StandardErrorContent"]) == ("Failed", True)


def test_the_root_of_a_host_closes_its_metadata_to_other_users(site: Site, own_vpc: Vpc, tier: str) -> None:
    if tier != "root":
        pytest.skip("there a host has one user, so nothing can be kept from another")
    (host,) = own_vpc.start("walled", own_vpc.security_group("walled"), 1)
    ask = ("runuser", "-u", "slipway", "--", *ASK, "-X", "PUT", f"{METADATA}/api/token")
    assert site.on(host, *ask).out == "400", "the service answers everybody"
    (instance,) = [found["instance"] for found in own_vpc.hosts("walled")]
    rules = shlex.quote(job_credentials.rules())
    assert run(site, instance, f"printf %s {rules} | nft -f -")["Status"] == "Success"
    assert site.on(host, *ask).code != 0
    assert site.on(host, *ASK, "-X", "PUT", f"{METADATA}/api/token").out == "400", "root is answered still"


def test_metadata_is_given_to_who_has_a_token(site: Site, cluster: Cluster) -> None:
    first = cluster.members[0]
    path = f"{METADATA}/meta-data/instance-id"
    assert site.on(first, *ASK, path).out == "401"
    assert site.on(first, *ASK, "-X", "PUT", f"{METADATA}/api/token").out == "400"
    assert site.metadata(first, "instance-id") == cluster.instance(first)
    header = site.header(first)
    assert site.on(first, *ASK, "-H", header, f"{METADATA}/meta-data/nothing").out == "404"
    second = cluster.members[1]
    assert site.on(second, *ASK, "-H", header, path).out == "401"
    said = site.on(first, "sh", "-c", 'curl -s "$AWS_ENDPOINT_URL/_yard/health"')
    assert "pid" in json.loads(said.out), "the yard's API answers there, too"


def test_a_host_starts_from_the_machine_image_that_was_baked_for_it(
    site: Site, own_vpc: Vpc, tmp_path: Path
) -> None:
    image = site.client("ec2").register_image(Name="baked", RootDeviceName="/dev/xvda")["ImageId"]
    files = site.yard.home / "machine-images" / image / "root"
    write_root(tmp_path / "root.tar", files)
    (files / "usr/bin/sh").symlink_to("bash")
    (files / "etc/baked").write_text("here\n")
    (host,) = own_vpc.start("nodes", own_vpc.security_group("members"), 1, image)
    assert own_vpc.hosts("nodes")[0]["root"] == "machine image"
    assert site.on(host, "cat", "/etc/baked").out == "here\n"
    assert site.on(host, "python3", "-c", "0").code == 127  # this machine's are not there
    site.on(host, "touch", "/etc/changed")
    assert not (files / "etc/changed").exists()


def run(site: Site, instance: str, line: str) -> dict[str, Any]:
    commands = Commands(site, instance)
    return commands.ended(commands.shell(line))


@pytest.mark.parametrize("market", ["spot", pytest.param("capacity-block", marks=pytest.mark.long)])
def test_a_host_of_another_vpc_reaches_nobody_knows_how_it_was_bought_and_has_the_keys_of_its_role(
    site: Site, cluster: Cluster, own_vpc: Vpc, market: str
) -> None:
    group = own_vpc.security_group("members")
    own_vpc.let_in(group, group)
    (host,) = own_vpc.start("nodes", group, 1, InstanceMarketOptions={"MarketType": market})
    assert reach(site, host, cluster.address(cluster.members[0]), SSH) == "OSError"  # no route to it
    assert site.metadata(host, "instance-life-cycle") == market
    # There is no notice of an interruption, for which a job on Spot asks every few seconds.
    asked = (*ASK, "-H", site.header(host), f"{METADATA}/meta-data/spot/instance-action")
    assert site.on(host, *asked).out == "404"
    iam, profile = site.client("iam"), f"trial-{market}"
    iam.create_role(RoleName=profile, AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=profile)
    site.client("ec2").associate_iam_instance_profile(
        IamInstanceProfile={"Name": profile}, InstanceId=own_vpc.hosts("nodes")[0]["instance"]
    )
    site.settle()
    keys = json.loads(site.metadata(host, f"iam/security-credentials/{profile}"))
    sts = client_of(site.yard, "sts", {**keys, "SessionToken": keys["Token"]})
    assert sts.get_caller_identity()["Account"]


def test_a_host_sees_of_every_home_of_this_machine_only_what_it_runs(site: Site, cluster: Cluster) -> None:
    """The homes of its own user and of root are as in a machine image."""
    first = cluster.members[0]
    found = set(site.on(first, "find", "/home", "/root", "-maxdepth", "1").out.split())
    needed = [str(CHECKOUT), sys.prefix, sys.base_prefix]
    shown = {str(Path(*Path(path).parts[:3])) for path in needed}
    homes = (Path("/home"), Path("/root"))
    of_the_image = {str(homes[0] / "slipway"), str(homes[0] / "debian"), str(homes[1] / ".ssh")}
    assert found <= {*map(str, homes), *of_the_image, *shown}
