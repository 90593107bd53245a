"""Who is of the cluster stands where mpirun, ssh and name lookups read it, and what else is there stays."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.platforms.mpi.node.join import hosts_text, write_roster
from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.words.mpi import Member

ONE = Member(name="ip-10-0-0-1", address="10.0.0.1", instance_id="i-1")
TWO = Member(name="ip-10-0-0-2", address="10.0.0.2", instance_id="i-2")


def test_the_main_node_comes_first_in_the_hostfile(tmp_path: Path) -> None:
    where = NodePaths(root=tmp_path)
    write_roster(where, [TWO, ONE])
    assert where.hostfile.read_text().split() == ["ip-10-0-0-2", "ip-10-0-0-1"]


def test_a_node_that_is_gone_is_gone_from_every_file(tmp_path: Path) -> None:
    where = NodePaths(root=tmp_path)
    write_roster(where, [ONE, TWO])
    assert write_roster(where, [ONE])
    assert not write_roster(where, [ONE])
    files = [where.hostfile, where.hosts, where.host_addresses]
    assert [path for path in files if "10-0-0-2" in path.read_text()] == []


@given(text=st.text("abc.# \t10:", max_size=200))
def test_what_else_stands_in_etc_hosts_stays(text: str) -> None:
    once = hosts_text(f"127.0.0.1 localhost\n{text}", [ONE, TWO])
    assert once.startswith(f"127.0.0.1 localhost\n{text}")
    assert hosts_text(once, [ONE, TWO]) == once
    assert hosts_text(once, []).count("10.0.0.") == text.count("10.0.0.")


def test_names_are_found_as_gloo_looks_for_them() -> None:
    assert "::ffff:10.0.0.1 ip-10-0-0-1\n" in hosts_text("", [ONE])
