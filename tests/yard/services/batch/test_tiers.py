"""These promises hold on every tier of isolation; tiers that this machine cannot make are skipped."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from slipway.yard import process
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from tests.waiting import until
from tests.yard.conftest import RunningYard
from tests.yard.every_tier import EVERY_TIER
from tests.yard.services.batch.conftest import (
    ATTEMPT,
    FOREVER,
    ISOLATED,
    NODE,
    Cluster,
    exit_codes,
    new_cluster,
)

pytestmark = pytest.mark.parametrize("tier", EVERY_TIER, indirect=True, scope="session")


def test_a_main_node_whose_machine_dies_is_tried_again(cluster: Cluster) -> None:
    job = cluster.submit(NODE + ATTEMPT + "print('ready', flush=True)\nif attempt == 1: signal.pause()")
    cluster.says(job, "ready")
    cluster.kill_node(job, 0)
    found = cluster.ended(job)
    assert found["status"] == "SUCCEEDED"
    assert found["attempts"][0]["statusReason"].startswith("Host EC2 (instance i-")
    assert exit_codes(cluster.describe(f"{job}#0")) == [None, 0]


def test_a_terminated_job_gets_sigterm_first(cluster: Cluster) -> None:
    says_goodbye = (
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))\n"
    )
    job = cluster.submit(says_goodbye + FOREVER)
    for node in (0, 1):
        cluster.says(job, "ready", node)
    cluster.batch.terminate_job(jobId=job, reason="enough")
    found = cluster.ended(job)
    assert (found["status"], found["statusReason"], found["isTerminated"]) == ("FAILED", "enough", True)
    assert [cluster.lines(job, node)[-1] for node in (0, 1)] == ["saved", "saved"]
    assert len(found["attempts"]) == 1


def test_what_ignores_sigterm_is_killed_in_the_end(cluster: Cluster) -> None:
    job = cluster.submit("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER)
    cluster.says(job, "ready")
    cluster.batch.terminate_job(jobId=job, reason="enough")
    cluster.ended(job)
    assert exit_codes(cluster.describe(f"{job}#0")) == [137]


def test_nodes_of_a_job_share_its_file_system_and_keep_their_own_disks(cluster: Cluster) -> None:
    volumes = [
        {"name": "all", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}},
        {"name": "own", "host": {"sourcePath": "/scratch"}},
    ]
    points = [{"sourceVolume": "all", "containerPath": "/data/all"}]
    points += [{"sourceVolume": "own", "containerPath": "/data/own"}]
    write = "for place in ('/data/all', '/data/own'): open(f'{place}/{node}', 'w').close()\n"
    definition = cluster.define("mounts", container={"volumes": volumes, "mountPoints": points})
    assert cluster.ended(cluster.submit(NODE + write, definition=definition))["status"] == "SUCCEEDED"
    look = "import os\nprint(sorted(os.listdir('/data/all')), os.listdir('/data/own'))"
    job = cluster.submit(look, definition=definition, nodes=1)
    cluster.ended(job)
    assert cluster.lines(job)[0] in ("['0', '1'] []", "['0'] []")  # the main node may end first
    assert not Path("/data").exists()


def test_every_node_has_its_own_hostname_address_and_tmp(cluster: Cluster, tier: str) -> None:
    if tier not in ISOLATED:
        pytest.skip(f"tier '{tier}' keeps nodes apart by nothing but their folders")
    look = (
        "import os, socket\nname = socket.gethostname()\nopen('/tmp/mine', 'x')\nopen('/dev/shm/mine', 'x')\n"
    )
    # The code comes from this checkout, which may itself lie in /tmp.
    look += "code = os.environ['PYTHONPATH']\n"
    look += "seen = [each for each in os.listdir('/tmp') if not code.startswith(f'/tmp/{each}')]\n"
    look += "print(name, socket.gethostbyname(name), seen, os.listdir('/dev/shm'), flush=True)\n"
    wait = "signal.pause()\n"
    job = cluster.submit(NODE + look + wait)
    until(lambda: all(cluster.lines(job, node) for node in (0, 1)))
    first, second = (cluster.lines(job, node)[0].split(" ", 2) for node in (0, 1))
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert first[2] == second[2] == "['mine'] ['mine']"


def test_nodes_reach_each_other_and_the_yard(cluster: Cluster) -> None:
    talk = (
        "import socket, urllib.request\n"
        "urllib.request.urlopen(os.environ['AWS_ENDPOINT_URL'] + '/_yard/health').read()\n"
        "main = os.environ.get('AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS')\n"
        "def call():\n"
        "    while True:\n"
        "        try: return socket.create_connection((main, 45671))\n"
        "        except ConnectionRefusedError: pass\n"
        "if node: call().sendall(b'hello from a child')\n"
        "else: print(socket.create_server(('', 45671)).accept()[0].recv(99).decode())\n"
    )
    job = cluster.submit(NODE + talk)
    assert cluster.ended(job)["status"] == "SUCCEEDED"
    assert cluster.lines(job) == ["hello from a child"]


def test_nothing_is_left_when_a_job_ends(cluster: Cluster) -> None:
    mark = f"left-{cluster.submit('pass', nodes=1)}"
    own = f"env={{'MARK': {mark!r}}}, start_new_session=True"
    job = cluster.submit(f"import subprocess\nsubprocess.Popen(['sleep', '1000'], {own})")
    cluster.ended(job)
    assert not processes_with(mark)
    assert not list((cluster.yard.home / "tmp" / "batch" / "attempts").glob(f"{job}*"))


def test_a_node_that_ends_takes_its_processes_with_it(cluster: Cluster) -> None:
    mark = f"left-{cluster.submit('pass', nodes=1)}"
    own = f"env={{'MARK': {mark!r}}}, start_new_session=True"
    leave = f"import subprocess\nif node == 1: subprocess.Popen(['sleep', '1000'], {own})\n"
    job = cluster.submit(NODE + leave + "if node == 0: signal.pause()")
    until(lambda: cluster.describe(f"{job}#1")["container"].get("exitCode") == 0)
    assert not processes_with(mark)
    assert cluster.describe(job)["status"] == "RUNNING"


def test_nothing_is_left_of_a_yard_that_is_killed(cluster: Cluster, tmp_path: Path, tier: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TIER_VARIABLE, tier)
        state = process.up(folder=tmp_path / "home").state
    other = new_cluster(RunningYard(endpoint=state.endpoint, home=tmp_path / "home"))
    mark = f"left-{state.pid}"
    job = other.submit(f"import os\nos.environ['MARK'] = {mark!r}\nos.execv('/bin/sleep', ['sleep', '1000'])")
    until(lambda: len(processes_with(mark)) == 2)
    os.kill(state.pid, signal.SIGKILL)
    until(lambda: not processes_with(mark))
    process.down(folder=tmp_path / "home")
    assert not (tmp_path / "home").exists(), job


def processes_with(mark: str) -> list[str]:
    """List this machine's processes in all namespaces."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
    return found
