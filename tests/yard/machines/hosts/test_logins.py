"""The jobs' user logs in and out on hosts where PAM and logind work as on EC2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from slipway.jobs.platforms.mpi.node.setting import USER, node_paths
from slipway.jobs.platforms.mpi.node.ssh_trust import USER_KEY
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.hosts.planning.own_files import USER_ID
from tests.yard.machines.hosts.conftest import Said, Site
from tests.yard.machines.hosts.test_boot import user_data

# Run without slipway-node, and let logind forget a user at once after logout, not ten seconds later.
QUIET = "#!/bin/sh\nsystemctl mask --runtime --now slipway-node.service\n"
SETTINGS = {"/etc/systemd/logind.conf.d/50-test.conf": "[Login]\nUserStopDelaySec=0\n"}
# What a node does when it joins.
JOIN = """\
import json
import sys

from slipway.jobs.words.mpi import Member
from slipway.jobs.platforms.mpi.node.join import reload_sshd
from slipway.jobs.platforms.mpi.node.join import write_roster
from slipway.jobs.platforms.mpi.node.setting import node_paths
from slipway.jobs.platforms.mpi.node.ssh_trust import cluster_user, establish

own, *members = (Member(**each) for each in json.loads(sys.argv[1]))
establish(node_paths(), "s" * 64, [own.name, own.address], cluster_user())
write_roster(node_paths(), members)
reload_sshd(node_paths())
"""
PYTHON = "/opt/slipway/venv/bin/python"
SWEEPS = "/etc/systemd/logind.conf.d/99-test.conf"


@pytest.fixture(autouse=True, scope="module")
def can_boot(tier: str) -> None:
    if why := boot_ways.obstacle(""):
        pytest.skip(f"no host boots for real here: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    site: Site
    one: str
    other: str

    def as_user(self, host: str, *words: str) -> Said:
        """Run a command as the jobs' user without a session, as Systems Manager and we do."""
        return self.site.on(host, "setpriv", "--reuid", USER, "--regid", USER, "--init-groups", *words)

    def enter(self, host: str, to: str, command: str = "echo arrived") -> Said:
        """Log in to the other node, the way mpirun does."""
        return self.as_user(host, "/etc/slipway/ssh", "-T", to, command)

    def log_in_and_out(self, host: str) -> None:
        """Return when logind has ended what the user's last session left."""
        assert self.site.on(host, "su", "-", USER, "-c", "true").code == 0
        self.site.until(lambda: self.site.on(host, "test", "-e", f"/run/systemd/users/{USER_ID}").code)

    def set_logind(self, host: str, command: str) -> None:
        said = self.site.on(host, "sh", "-c", f"{command} && systemctl restart systemd-logind.service")
        assert said.code == 0, said


@pytest.fixture(scope="module")
def nodes(site: Site) -> Iterator[Nodes]:
    vpc = site.vpc()
    group = vpc.security_group("members")
    vpc.let_in(group, group)
    one, other = vpc.start("nodes", group, 2, UserData=user_data(QUIET, SETTINGS))
    members = {
        host["name"]: {"name": host["name"], "address": host["address"], "instance_id": host["instance"]}
        for host in vpc.hosts("nodes")
    }
    for name in (one, other):
        said = site.on(name, PYTHON, "-c", JOIN, json.dumps([members[name], *members.values()]))
        assert said.code == 0, said
    yield Nodes(site=site, one=one, other=other)
    vpc.delete()


@pytest.fixture
def sweeping(nodes: Nodes) -> Iterator[None]:
    """With a distribution's defaults, logind cleans up after a user whose last session ends."""
    for host in (nodes.one, nodes.other):
        nodes.set_logind(host, f"printf '[Login]\\nRemoveIPC=yes\\n' >{SWEEPS}")
    yield
    for host in (nodes.one, nodes.other):
        nodes.set_logind(host, f"rm {SWEEPS}")


def test_a_log_in_by_ssh_is_a_session_of_logind_as_on_ubuntu(nodes: Nodes) -> None:
    said = nodes.enter(nodes.one, nodes.other, 'echo "$XDG_SESSION_ID"')
    assert said.out.strip(), said


@pytest.mark.usefixtures("sweeping")
def test_nodes_let_each_other_in_after_somebody_has_logged_in_and_out(nodes: Nodes) -> None:
    for host in (nodes.one, nodes.other):
        nodes.log_in_and_out(host)
    for host, to in ((nodes.one, nodes.other), (nodes.other, nodes.one)):
        assert nodes.enter(host, to) == Said(code=0, out="arrived\n", errors="")


def test_what_ranks_share_in_memory_is_there_after_somebody_has_logged_in_and_out(nodes: Nodes) -> None:
    nodes.as_user(nodes.one, "touch", "/dev/shm/of-a-rank")
    nodes.log_in_and_out(nodes.one)
    assert nodes.as_user(nodes.one, "test", "-e", "/dev/shm/of-a-rank").code == 0


def test_a_job_reads_the_key_of_its_node_and_cannot_change_it(nodes: Nodes) -> None:
    key = node_paths({}).keys / USER_KEY
    assert nodes.as_user(nodes.one, "test", "-r", str(key)).code == 0
    for path in (key, key.parent):
        assert nodes.as_user(nodes.one, "test", "-w", str(path)).code == 1
    assert nodes.site.on(nodes.one, "runuser", "-u", "nobody", "--", "test", "-r", str(key)).code == 1
