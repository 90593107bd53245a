"""A node joins only if jobs find what they need, keeps the roster up to date, and says when it is ready."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.platforms.mpi.node import serve
from slipway.jobs.platforms.mpi.node.instance import Instance
from slipway.jobs.platforms.mpi.node.join import (
    STOPS,
    NotWhole,
    hosts_text,
    read_record,
    refuse_unshared_files,
    take_back_answer,
    write_record,
    write_roster,
)
from slipway.jobs.platforms.mpi.node.lock import lock_cluster
from slipway.jobs.platforms.mpi.node.run import summarise
from slipway.jobs.platforms.mpi.node.serve import REFRESH_SECONDS, RoundPace
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.node.ssh_trust import USER_KEY, cluster_user, establish
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.mpi import READY_KEY, Member, Readiness
from tests.containers.forks import free_port
from tests.jobs.platforms.mpi.node.conftest import SECRET, SETUP, Node, Start
from tests.yard.conftest import REGION, RunningYard

MACHINE = NodePaths(root=Path("/"))


def test_a_node_whose_shared_files_are_not_mounted_does_not_join(tmp_path: Path) -> None:
    """The folder is on the root disk, as after a reboot whose mount failed."""
    with pytest.raises(NotWhole, match=f"shared files of this cluster are not mounted at {tmp_path}") as told:
        refuse_unshared_files(MACHINE, str(tmp_path))
    assert "systemctl status slipway-boot" in str(told.value.hint)
    refuse_unshared_files(MACHINE, "/proc")  # it is mounted
    refuse_unshared_files(MACHINE, None)  # the cluster has no shared files
    refuse_unshared_files(NodePaths(root=tmp_path), str(tmp_path / "shared"))  # here a folder


# The cluster's nodes are in the files that mpirun, ssh and name lookups read, whose other lines stay.
ONE = Member(name="ip-10-0-0-1", address="10.0.0.1", instance_id="i-1")
TWO = Member(name="ip-10-0-0-2", address="10.0.0.2", instance_id="i-2")


def test_the_main_node_comes_first_in_the_hostfile_and_a_node_that_is_gone_is_in_no_file(
    tmp_path: Path,
) -> None:
    where = NodePaths(root=tmp_path)
    assert write_roster(where, [TWO, ONE])
    assert where.hostfile.read_text().split() == ["ip-10-0-0-2", "ip-10-0-0-1"]
    assert write_roster(where, [ONE])
    assert not write_roster(where, [ONE])
    files = [where.hostfile, where.hosts, where.host_addresses]
    assert [path for path in files if "10-0-0-2" in path.read_text()] == []
    assert "::ffff:10.0.0.1 ip-10-0-0-1\n" in hosts_text("", [ONE])  # as Gloo looks for it


@given(text=st.text("abc.# \t10:", max_size=200))
def test_what_else_stands_in_etc_hosts_stays(text: str) -> None:
    once = hosts_text(f"127.0.0.1 localhost\n{text}", [ONE, TWO])
    assert once.startswith(f"127.0.0.1 localhost\n{text}")
    assert hosts_text(once, [ONE, TWO]) == once
    assert hosts_text(once, []).count("10.0.0.") == text.count("10.0.0.")


# A node looks at its cluster often while nodes come and go, and rarely while nothing changes.


def rests(pace: RoundPace, instances: tuple[str, ...], rounds: int) -> list[float]:
    """Return how long it rests after each round that sees these instances."""
    found = []
    for _ in range(rounds):
        pace.slow_down()
        pace.see(instances)
        found.append(pace.rest_s)
    return found


def test_who_waits_for_new_nodes_waits_seconds_and_a_quiet_cluster_costs_few_calls() -> None:
    pace = RoundPace()
    assert rests(pace, ("i-1",), 6) == [2, 4, 8, REFRESH_SECONDS, REFRESH_SECONDS, REFRESH_SECONDS]
    assert rests(pace, ("i-1", "i-2"), 3) == [2, 4, 8]
    for _ in range(5):
        pace.slow_down()  # rounds that fail before they see the nodes
    assert pace.rest_s == REFRESH_SECONDS


# The record of ready nodes is true: it lacks a node that restarts or vanishes.


@dataclass(slots=True)
class Cluster:
    """Run a main node's server with real sshds and a real bucket; count its calls of mpirun."""

    nodes: list[Node]
    where: NodePaths
    seconds: float = 0.0
    asked: int = 0
    server: serve.Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = serve.Server(self.where, clock=lambda: self.seconds)

    @property
    def members(self) -> list[Member]:
        return [node.member for node in self.nodes]

    def ask(self) -> Readiness:
        self.asked += 1
        return summarise(self.members, {}, len(self.nodes), at=self.asked)

    def turn(self, seconds: float = 60.0) -> None:
        self.seconds += seconds
        self.server.turn()

    def ready(self) -> list[bool]:
        record = read_record(SETUP)
        return [node.answered for node in record.nodes] if record else []


@pytest.fixture
def cluster(
    start: Start,
    yard_shell: RunningYard,
    as_node: Callable[[Node], None],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    nodes = [start("127.0.0.1"), start("127.0.0.2")]
    as_node(nodes[0])
    where = nodes[0].where
    write_whole(where.setup, json.dumps(asdict(SETUP)))
    made = Cluster(nodes=nodes, where=where)
    monkeypatch.setattr(serve, "find_members", lambda *_: made.members)
    monkeypatch.setattr(serve, "read_instance", lambda: Instance(id="i-0", address="127.0.0.1"))
    monkeypatch.setattr(serve, "join", lambda *_: None)
    monkeypatch.setattr(serve, "ask_check", made.ask)
    monkeypatch.setattr(made.server, "release_left", lambda: None)
    client("s3", REGION).create_bucket(Bucket=SETUP.bucket)
    yield made
    client("s3", REGION).delete_object(Bucket=SETUP.bucket, Key=READY_KEY)
    client("s3", REGION).delete_bucket(Bucket=SETUP.bucket)


def test_a_cluster_of_which_nothing_changed_is_asked_once(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.turn()
    assert (cluster.asked, cluster.ready()) == (1, [True, True])


def test_a_node_that_restarts_is_not_ready_until_the_main_node_has_asked_it_again(cluster: Cluster) -> None:
    cluster.turn()
    take_back_answer(SETUP, "i-1", STOPS)
    record = read_record(SETUP)
    assert record is not None
    assert [(node.answered, node.why) for node in record.nodes] == [(True, ""), (False, STOPS)]
    assert not record.ready
    cluster.turn()
    assert (cluster.asked, cluster.ready()) == (2, [True, True])


def test_what_was_said_of_a_node_before_it_started_does_not_count_any_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the node could not withdraw itself, because its kernel crashed."""
    write_record(SETUP, cluster.ask())
    seen: list[list[bool]] = []
    monkeypatch.setattr(serve, "join", lambda *_: seen.append(cluster.ready()))
    cluster.turn()
    assert seen == [[False, True]]
    assert cluster.ready() == [True, True]


def test_a_node_on_which_nothing_listens_any_more_is_asked_again(cluster: Cluster) -> None:
    cluster.turn()
    cluster.where = NodePaths(root=cluster.where.root, ssh_port=free_port())
    cluster.server._where = cluster.where
    cluster.turn()
    assert cluster.asked == 2


def test_a_main_node_whose_jobs_can_enter_no_node_any_more_asks_again_once_none_runs(
    cluster: Cluster,
) -> None:
    """Its sshds still listen, but a job would fail."""
    cluster.turn()
    key = cluster.where.keys / USER_KEY
    key.rename(key.with_name("lost"))
    with lock_cluster(cluster.where, "glue-1"):
        cluster.turn()
    assert cluster.asked == 1
    cluster.turn()
    assert cluster.asked == 2


def test_a_node_that_has_lost_a_key_makes_another(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = cluster.nodes

    def join(where: NodePaths, _setup: Setup) -> None:
        establish(where, SECRET, [one.member.name, one.member.address], cluster_user())

    monkeypatch.setattr(serve, "join", join)
    cluster.turn()
    (cluster.where.keys / USER_KEY).unlink()
    assert one.ssh(two.member.name, "true").returncode != 0
    cluster.turn()
    assert one.ssh(two.member.name, "true").returncode == 0
    assert (cluster.asked, cluster.ready()) == (1, [True, True])


def test_a_node_that_systemd_ends_takes_its_answer_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(SETUP, cluster.ask())

    def end(_seconds: float) -> None:
        serve._leave(15, None)

    monkeypatch.setattr(time, "sleep", end)
    monkeypatch.setattr(serve, "Server", lambda _: Idle())
    with pytest.raises(SystemExit):
        serve.serve(cluster.where)
    assert cluster.ready() == [False, True]
    assert reader("s3", REGION).head_object(Bucket=SETUP.bucket, Key=READY_KEY)


class Idle:
    """Make a server without work."""

    pace = serve.RoundPace()

    def turn(self) -> None: ...
