"""Nodes of one cluster let each other in, and nobody else; real keys, certificates, ssh and sshd."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.setting import NodePaths
from slipway.jobs.platforms.mpi.node.ssh_trust import (
    USER_KEY,
    User,
    authority_seed,
    establish,
    private_key_text,
    public_key_text,
)
from tests.jobs.platforms.mpi.node.conftest import SECRET, Start

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
    """Even one that believes the node's host key."""
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


def test_the_authority_is_forgotten_once_it_has_signed(start: Start) -> None:
    one = start(HERE)
    body = private_key_text(authority_seed(SECRET), "").splitlines()[2]
    files = [path for path in one.where.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if body in path.read_text(errors="replace")]
    assert not [path for path in files if SECRET in path.read_text(errors="replace")]


def test_every_node_derives_the_same_authority_and_another_secret_another() -> None:
    assert public_key_text(authority_seed(SECRET)) == public_key_text(authority_seed(SECRET))
    assert public_key_text(authority_seed(SECRET)) != public_key_text(authority_seed(OTHER))


def test_private_keys_are_their_owners_alone_and_in_memory(start: Start) -> None:
    one = start(HERE)
    private = [path for path in one.where.root.rglob("*") if path.is_file() and "PRIVATE KEY" in text(path)]
    assert len(private) == 2  # of the host and of the user
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    assert all(path.is_relative_to(one.where.keys) for path in private)


def text(path: Path) -> str:
    return path.read_text(errors="replace")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_job_cannot_put_a_link_where_root_signs_its_certificate_again(tmp_path: Path) -> None:
    """Or root would write to, and give away, whatever file of its own the link names."""
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
