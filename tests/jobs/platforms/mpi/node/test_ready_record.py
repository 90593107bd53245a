"""The record of who is ready tells the truth: a node that restarts or vanishes is not ready in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

import pytest

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.platforms.mpi.node import serve
from slipway.jobs.platforms.mpi.node.instance import Instance
from slipway.jobs.platforms.mpi.node.join import STOPS, read_record, take_back_answer, write_record
from slipway.jobs.platforms.mpi.node.lock import lock_cluster
from slipway.jobs.platforms.mpi.node.run import summarise
from slipway.jobs.platforms.mpi.node.setting import NodePaths, Setup
from slipway.jobs.platforms.mpi.node.ssh_trust import USER_KEY, cluster_user, establish
from slipway.jobs.platforms.on_nodes import write_whole
from slipway.jobs.words.mpi import READY_KEY, Member, Readiness
from tests.jobs.platforms.mpi.node.conftest import SECRET, SETUP, Node, Start, free_port
from tests.yard.conftest import REGION, RunningYard


@dataclass(slots=True)
class Cluster:
    """A main node's server over real sshds and a real bucket; what it asks of mpirun is counted."""

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
    """Also where nobody could take it back: its kernel may have crashed."""
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


def test_a_main_node_whose_jobs_can_enter_no_node_any_more_asks_again(cluster: Cluster) -> None:
    """Its sshds still listen, and a job would fail."""
    cluster.turn()
    key = cluster.where.keys / USER_KEY
    key.rename(key.with_name("lost"))
    cluster.turn()
    assert cluster.asked == 2


def test_a_main_node_does_not_enter_the_nodes_while_a_job_runs_there(cluster: Cluster) -> None:
    cluster.turn()
    (cluster.where.keys / USER_KEY).unlink()
    with lock_cluster(cluster.where, "glue-1"):
        cluster.turn()
    assert cluster.asked == 1


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
    """A server with nothing to do."""

    pace = serve.RoundPace()

    def turn(self) -> None: ...
