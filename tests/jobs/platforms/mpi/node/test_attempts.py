"""A host lost before or after the ranks of an MPI job start uses up one attempt."""

from __future__ import annotations

import argparse
import errno
import gzip
import io
import json
import os
import signal
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.cloud import aws
from slipway.jobs.platforms.code_bundle import own_containers, pack
from slipway.jobs.platforms.mpi.node import run as node_run
from slipway.jobs.platforms.mpi.node.hosts import Said
from slipway.jobs.platforms.mpi.node.lock import last_holder, lock_cluster
from slipway.jobs.platforms.mpi.node.mpirun import Ended
from slipway.jobs.platforms.mpi.node.run import DeadHost, ensure_code, protect, release
from slipway.jobs.platforms.mpi.node.serve import Server
from slipway.jobs.platforms.mpi.node.setting import ROOT_VARIABLE, NodePaths, Setup
from slipway.jobs.platforms.mpi.nodes import find_members
from slipway.jobs.platforms.on_nodes import DamagedCode, run_word, write_whole
from slipway.jobs.words.mpi import Member
from slipway.jobs.words.names import CLUSTER_TAG
from tests.jobs.code.projects import write
from tests.jobs.platforms.mpi.node.conftest import SETUP
from tests.jobs.platforms.mpi.node.test_run import MEMBER
from tests.jobs.words.test_mpi import JOB
from tests.yard.accounts import own_image
from tests.yard.conftest import RunningYard

Attempted = Callable[..., tuple[int, list[int]]]
DEAD = DeadHost("host ip-10-0-0-2 does not answer: Connection timed out")


@pytest.fixture
def attempted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Attempted]:
    """Return what runs a job of two attempts whose hosts answer, or fail, as they are told to.

    It returns the exit code and the attempts whose ranks began.
    """

    def attempt(found: list[Exception | None], prepared: list[Exception | None]) -> tuple[int, list[int]]:
        begun: list[int] = []

        def find(*_: object) -> list[Member]:
            if found and (problem := found.pop(0)):
                raise problem
            return [MEMBER]

        def prepare(*given: object) -> object:
            if prepared and (problem := prepared.pop(0)):
                raise problem
            return given[-1]

        def begin(_where: object, work: int, *_: object) -> Ended:
            begun.append(work)
            return Ended(code=0, dead=())

        fakes: dict[str, object] = {
            "_members_of": find,
            "_prepare": prepare,
            "run_everywhere": begin,
            "agree": lambda *_: None,
        }
        fakes |= dict.fromkeys(("become_cluster_user", "protect", "release"), lambda *_: None)
        fakes |= {"_read_request": lambda *_: replace(JOB, attempts=2), "_LOOK_AGAIN_SECONDS": 0.0}
        for name, fake in fakes.items():
            monkeypatch.setattr(node_run, name, fake)
        return node_run.run_job(NodePaths(root=tmp_path), SETUP, "jobs/x/request.json"), begun

    before = signal.getsignal(signal.SIGTERM)
    yield attempt
    signal.signal(signal.SIGTERM, before)


def test_a_disk_that_is_full_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: argparse.Namespace) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/shared/jobs/bert/.lock")

    assert run_word({"submit": full}, argparse.Namespace(word="submit")) == 1
    assert capsys.readouterr().err == "error: submit: /shared/jobs/bert/.lock: No space left on device\n"


def test_a_job_goes_on_when_nobody_reads_what_it_says(
    attempted: Attempted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems Manager's agent restarts, and its worker with it that reads the job's output."""

    class Unread(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr(sys, "stderr", Unread())
    assert attempted([None, DEAD], []) == (0, [2])


def test_a_host_that_dies_or_is_gone_before_the_first_start_takes_an_attempt_and_is_waited_for(
    attempted: Attempted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attempted(found=[], prepared=[DEAD]) == (0, [2])
    said = capsys.readouterr().err
    assert "[run] error: attempt 1 of 2 did not start: host ip-10-0-0-2 does not answer" in said
    assert "[run] attempt 1 of 2 failed on its machines; the next resumes once all answer" in said
    missing = node_run._Missing("job glue-1 asks for 2 nodes and 1 run: ip-10-0-0-1")
    assert attempted(found=[missing, missing, missing], prepared=[]) == (0, [2])
    assert attempted(found=[], prepared=[DEAD, DEAD]) == (85, [])
    assert capsys.readouterr().err.endswith(f"error: {JOB.name} ended with exit code 85, attempt 2 of 2\n")


def test_a_node_asks_who_it_is_as_root_even_where_others_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The metadata service answers nobody else, and a later attempt has to know."""
    asked: list[str] = []
    monkeypatch.setattr(node_run, "find_members", lambda *_: [MEMBER])
    monkeypatch.setattr(node_run, "read_instance", lambda: asked.append("who"))
    with pytest.raises(node_run._Missing, match="asks for 4 nodes and 1 run"):
        node_run._members_of(NodePaths(root=tmp_path), SETUP, JOB)
    assert asked == ["who"]


def test_a_host_that_nobody_replaces_ends_the_job_and_the_log_counts_no_attempt_that_was_not_made(
    attempted: Attempted,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(node_run, "REPLACED_SECONDS", -1)
    assert attempted(found=[None, None, DEAD], prepared=[DEAD]) == (85, [])
    said = capsys.readouterr().err
    assert "host ip-10-0-0-2 does not answer: Connection timed out; it was not replaced in" in said
    assert said.endswith(f"error: {JOB.name} ended with exit code 85, attempt 1 of 2\n")


def test_a_host_that_dies_while_it_fetches_the_code_is_a_dead_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job is not the cause, and another attempt may find another host."""
    monkeypatch.setattr(
        node_run, "ask_all", lambda *_: [Said(host="ip-10-0-0-2", code=255, output="", error="timed out")]
    )
    with pytest.raises(DeadHost, match="host ip-10-0-0-2 does not answer: timed out"):
        node_run._fetch_everywhere(NodePaths(root=tmp_path), [MEMBER], JOB.code)


# While a job runs, no rule takes its nodes away; afterwards every node may go.


@pytest.fixture
def group(yard_shell: RunningYard) -> Iterator[RunningYard]:
    """Start two nodes as the stack does, and remove them at the end."""
    ec2, scaling = yard_shell.client("ec2"), yard_shell.client("autoscaling")
    image = own_image(ec2)
    data = {"ImageId": image, "InstanceType": "c6i.16xlarge"}
    made = ec2.create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)["LaunchTemplate"]
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="c6i",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=2,
        VPCZoneIdentifier=ec2.describe_subnets()["Subnets"][0]["SubnetId"],
        LaunchTemplate={"LaunchTemplateId": made["LaunchTemplateId"], "Version": "1"},
        Tags=[
            {
                "ResourceId": "c6i",
                "ResourceType": "auto-scaling-group",
                "Key": CLUSTER_TAG,
                "Value": "c6i",
                "PropagateAtLaunch": True,
            }
        ],
    )
    yield yard_shell
    scaling.delete_auto_scaling_group(AutoScalingGroupName="c6i", ForceDelete=True)


def protected(running: RunningYard) -> list[bool]:
    (found,) = running.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return [instance["ProtectedFromScaleIn"] for instance in found["Instances"]]


def test_the_nodes_of_a_job_are_protected_until_it_is_over(group: RunningYard) -> None:
    said: list[str] = []
    members = find_members(SETUP.cluster, SETUP.region)
    assert len(members) == 2
    protect(SETUP, members[:1], said.append)
    assert sorted(protected(group)) == [False, True]
    protect(SETUP, members, said.append)
    assert protected(group) == [True, True]
    release(SETUP, said.append)
    assert protected(group) == [False, False]
    assert said == []


def test_nodes_of_a_job_whose_run_was_killed_may_go_once_nothing_of_it_is_left(
    group: RunningYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mpirun also holds the lock until it has ended."""
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    where = NodePaths(root=tmp_path)
    write_whole(where.setup, json.dumps(asdict(SETUP)))
    server = Server(where)
    with lock_cluster(where, "killed-1"):
        protect(SETUP, find_members(SETUP.cluster, SETUP.region), print)
        server.release_left()
        assert protected(group) == [True, True]
    server.release_left()
    assert protected(group) == [False, False]
    protect(SETUP, find_members(SETUP.cluster, SETUP.region), print)
    server.release_left()
    assert protected(group) == [True, True]  # no node is asked again until another job has run
    Server(where).release_left()
    assert protected(group) == [False, False]  # but by a new main node


def test_what_root_reads_of_the_lock_is_no_link_that_a_job_has_laid(tmp_path: Path) -> None:
    where = NodePaths(root=tmp_path)
    assert last_holder(where) == ""
    where.lock.parent.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    where.lock.symlink_to(tmp_path / "secret")
    assert last_holder(where) == ""


def test_a_job_runs_without_protection_too_and_its_log_says_so(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(aws, "DEADLINE_SECONDS", 0.0)
    said: list[str] = []
    protect(SETUP, [Member(name="a", address="10.30.0.5", instance_id="i-1")], said.append)
    release(SETUP, said.append)
    assert said[0].startswith("warning: nodes are not protected from scaling in: EndpointConnectionError")
    assert said[1].startswith("warning: nodes stay protected from scaling in: ")


# A job's code is packed alike everywhere, checked before it is unpacked, and unpacked once.
WHERE = NodePaths(root=Path("/nowhere"))


class Store:
    """S3 with one object."""

    def __init__(self, body: bytes) -> None:
        self.body, self.asked = body, 0

    def get_object(self, **_: Any) -> dict[str, Any]:
        self.asked += 1
        return {"Body": io.BytesIO(self.body)}


def setup_of(tmp_path: Path) -> Setup:
    return replace(SETUP, file_system_mount=str(tmp_path))


def test_the_same_files_make_the_same_bytes_whenever_they_were_written_and_others_another_bundle(
    tmp_path: Path,
) -> None:
    one = pack(write(tmp_path / "one", {"a": "1", "sub/b": "2"}))
    two = write(tmp_path / "two", {"sub/b": "2", "a": "1"})
    os.utime(two / "a", (1, 1))
    assert one == pack(two)
    others = [
        write(tmp_path / "three", {"a": "2", "sub/b": "2"}),
        write(tmp_path / "four", {"a": "1", "sub/b": "2", "c": ""}),
    ]
    assert len({one.digest, *(pack(folder).digest for folder in others)}) == 3


def test_what_is_unpacked_once_is_what_was_packed_without_what_only_images_need_however_compressed(
    tmp_path: Path,
) -> None:
    bundle = pack(own_containers())
    store = Store(bundle.packed)
    folder, again = (ensure_code(WHERE, setup_of(tmp_path), bundle.digest, store) for _ in range(2))
    assert (folder, store.asked) == (again, 1)
    launch = Path("runtime/launch/launcher.py")
    assert (folder / "slipway/containers" / launch).read_bytes() == (own_containers() / launch).read_bytes()
    assert not (folder / "slipway/containers/images").exists()
    assert not list(folder.rglob("__pycache__"))
    bundle = pack(write(tmp_path / "one", {"a": "1"}))
    otherwise = gzip.compress(gzip.decompress(bundle.packed), 1)
    folder = ensure_code(WHERE, setup_of(tmp_path), bundle.digest, Store(otherwise))
    assert (folder / "slipway/containers/a").read_text() == "1"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b"another archive"), id="another archive"),
    ],
)
def test_what_is_not_the_code_that_was_sent_is_never_unpacked(tmp_path: Path, body: bytes) -> None:
    digest = pack(write(tmp_path / "one", {"a": "1"})).digest
    with pytest.raises(DamagedCode, match=digest):
        ensure_code(WHERE, setup_of(tmp_path), digest, Store(body))
    assert not (tmp_path / "slipway").exists()


def a_link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("inside")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    return member


@pytest.mark.parametrize(
    "member", [tarfile.TarInfo("../../escaped"), tarfile.TarInfo("/tmp/escaped-slipway"), a_link()]
)
def test_an_archive_writes_plain_files_below_its_folder_and_nothing_else(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.addfile(member)
    body = plain.getvalue()
    with pytest.raises(DamagedCode, match="no file below its folder"):
        ensure_code(WHERE, setup_of(tmp_path), sha256(body).hexdigest(), Store(gzip.compress(body)))
    assert not list(tmp_path.rglob("*escaped*"))


def test_code_that_no_files_share_lies_where_no_other_user_can_lay_some_before(tmp_path: Path) -> None:
    """Anybody could take the names of folders in /tmp first."""
    where, bundle = NodePaths(root=tmp_path / "node"), pack(write(tmp_path / "one", {"a": "1"}))
    folder = ensure_code(where, replace(SETUP, file_system_mount=None), bundle.digest, Store(bundle.packed))
    assert folder.is_relative_to(where.run)
