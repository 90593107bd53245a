"""AWS Batch when EC2 has no machines, nodes come late, names cannot be looked up, and links are slow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.yard.machines.isolation.tiers import best_tier
from tests.fault_clock import FaultClock
from tests.waiting import until
from tests.yard.asking import switch
from tests.yard.services.batch.conftest import FOREVER, NODE, Cluster, limit

NO_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
# Each node tells what it knows of its own name and that of node 0, and reaches node 0 by its address.
LOOK_UP = (
    NODE
    + """
import json, socket
def known(name):
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None
address = os.environ.get('AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS', '')
main = 'ip-' + address.replace('.', '-')
print(json.dumps({'self': known(socket.gethostname()), 'main': known(main), 'address': address}), flush=True)
if node == 0:
    door = socket.create_server(('', 4000)); door.accept()
else:
    for _ in range(300):
        try:
            socket.create_connection((address, 4000)); break
        except OSError:
            import time; time.sleep(0.1)
"""
)


def test_without_capacity_a_job_waits_its_environment_stays_and_the_queue_ends_it(cluster: Cluster) -> None:
    cluster.batch.update_job_queue(jobQueue="queue", jobStateTimeLimitActions=[limit(NO_CAPACITY)])
    switch(cluster.yard, no_capacity=100)
    found = cluster.ended(cluster.submit("pass"))
    assert found["statusReason"] == f"Canceled by JobStateTimeLimit action due to reason: {NO_CAPACITY}"
    assert found["attempts"] == []
    (environment,) = cluster.batch.describe_compute_environments()["computeEnvironments"]
    assert (environment["state"], environment["status"]) == ("ENABLED", "VALID")
    switch(cluster.yard, no_capacity=0)
    assert cluster.ended(cluster.submit("pass"))["status"] == "SUCCEEDED"


def test_capacity_that_comes_and_goes_lets_a_job_through_in_the_end(cluster: Cluster) -> None:
    switch(cluster.yard, no_capacity=50)
    assert cluster.ended(cluster.submit("pass"))["status"] == "SUCCEEDED"


def test_nodes_that_come_late_keep_a_job_starting_and_it_can_be_ended_meanwhile(cluster: Cluster) -> None:
    switch(cluster.yard, launch_delay=600)
    job = cluster.submit(FOREVER)
    until(lambda: cluster.describe(job)["status"] == "STARTING")
    cluster.batch.terminate_job(jobId=job, reason="too late")
    assert cluster.ended(job)["statusReason"] == "too late"


def test_nodes_that_come_one_after_the_other_run_the_same_job(cluster: Cluster) -> None:
    switch(cluster.yard, launch_delay=1)
    job = cluster.submit("print('here')", nodes=4)
    assert cluster.ended(job)["status"] == "SUCCEEDED"
    assert cluster.lines(job) == ["here"]


def test_a_node_whose_dns_fails_knows_itself_and_reaches_the_main_node_by_address(cluster: Cluster) -> None:
    """F14."""
    needs_networks()
    switch(cluster.yard, dns=100)
    job = cluster.submit(LOOK_UP)
    assert cluster.ended(job)["status"] == "SUCCEEDED"
    said = json.loads(cluster.lines(job, 1)[0])
    assert said["main"] is None
    assert said["self"].startswith("10.0.")


def test_a_job_of_nodes_whose_dns_fails_meets_all_the_same(cluster: Cluster) -> None:
    """F14. Only addresses are asked for."""
    needs_networks()
    switch(cluster.yard, dns=100)
    job = cluster.submit(LAUNCHED.replace("sys.argv[1]", repr(TRANSFER)))
    assert cluster.ended(job)["status"] == "SUCCEEDED", cluster.lines(job)


# Rank 1 fills the link for most of a second, and the launchers' heartbeats have to go beside it.
TRANSFER = """
import os, socket, time
place = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
if os.environ['RANK'] == '0':
    peer, left = socket.create_server(('', place[1])).accept()[0], 500_000
    while left:
        left -= len(peer.recv(left))
    peer.sendall(b'.')
else:
    for _ in range(300):
        try:
            peer = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(bytes(500_000))
    assert peer.recv(1) == b'.'
"""
LAUNCHED = """
import subprocess, sys
from slipway.containers.runtime.launch import launcher
print(subprocess.getoutput('tc qdisc show dev eth0'), flush=True)
sys.exit(launcher.main(['--module', 'timeit', '--', '-n', '1', '-r', '1', sys.argv[1]]))
"""


def test_a_job_over_the_slow_link_that_was_asked_for_is_taken_for_no_dead_one(cluster: Cluster) -> None:
    """F13. A kernel without netem delays nothing, and the job's log says so."""
    needs_networks()
    cluster.define("slow", container={"environment": [{"name": "SLIPWAY_HEARTBEAT_SECONDS", "value": "0.5"}]})
    switch(cluster.yard, bandwidth=5, packet_delay=1)
    job = cluster.submit(LAUNCHED.replace("sys.argv[1]", repr(TRANSFER)), definition="slow")
    found = cluster.ended(job)
    said = cluster.lines(job)
    assert found["status"] == "SUCCEEDED", said
    assert len(found["attempts"]) == 1, said
    assert any("tbf" in line and "rate 5Mbit" in line for line in said)
    assert any("netem" in line for line in said)


PULL = ("Task failed to start", "CannotPullContainerError: pull image manifest has been retried 5 time(s): ")


def pulls_failed(cluster: Cluster, job: str) -> list[bool]:
    """Tell of each attempt whether it ended before its container was there."""
    found: dict[str, Any] = cluster.describe(f"{job}#0")
    said = [(each["statusReason"], each["container"].get("reason", "")) for each in found["attempts"]]
    return [words == PULL[0] and reason.startswith(PULL[1]) for words, reason in said]


def test_an_image_that_cannot_be_pulled_once_costs_an_attempt(cluster: Cluster, fault: FaultClock) -> None:
    """F46. Of this seed the first draw strikes, and the second does not."""
    switch(cluster.yard, image_pull=50)
    job = cluster.submit("pass")
    fault.strikes()
    assert cluster.ended(job)["status"] == "SUCCEEDED"
    fault.is_over()
    assert pulls_failed(cluster, job) == [True, False]


def test_an_image_that_can_never_be_pulled_fails_the_job_at_its_last_attempt(cluster: Cluster) -> None:
    """F46."""
    switch(cluster.yard, image_pull=100)
    job = cluster.submit("pass")
    assert cluster.ended(job)["status"] == "FAILED"
    assert pulls_failed(cluster, job) == [True, True, True]


def needs_networks() -> None:
    if not best_tier().isolated:
        pytest.skip("nodes share this machine's network")


# Node 1 cuts its own link once it has joined; every process lives on, and no connection is closed.
CUT = """
import os, subprocess, sys, time
words = ['--module', 'timeit', '--', '-n', '1', '-r', '1', 'import time; time.sleep(600)']
command = [sys.executable, '-m', 'slipway.containers.runtime.launch', *words]
launcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in launcher.stdout:
    print(line, end='', flush=True)
    if 'start on' in line and os.environ['AWS_BATCH_JOB_NODE_INDEX'] == '1':
        subprocess.run(['ip', 'link', 'set', 'eth0', 'down'], check=True)
code = launcher.wait()
print('ended with', code, flush=True)
time.sleep(600)  # a job ends with its main node, and the child might not have said yet what it saw
"""


def test_a_network_that_is_cut_in_two_ends_both_sides_resumable(cluster: Cluster, fault: FaultClock) -> None:
    """F11."""
    needs_networks()
    cluster.define("cut", container={"environment": [{"name": "SLIPWAY_HEARTBEAT_SECONDS", "value": "1"}]})
    job = cluster.submit(CUT, definition="cut", retryStrategy={"attempts": 1})
    prints(cluster, job, "start on")
    fault.strikes()
    prints(cluster, job, "no heartbeat for 1 s")
    fault.is_seen()
    for node in range(2):
        prints(cluster, job, "ended with 85", node)
    fault.is_over()
    assert any("lost the main node" in line for line in cluster.lines(job, 1))
    cluster.batch.terminate_job(jobId=job, reason="both have ended")
    assert cluster.ended(job)["status"] == "FAILED"


def prints(cluster: Cluster, job: str, words: str, node: int = 0) -> None:
    until(lambda: any(words in line for line in cluster.lines(job, node)))


GPUS = {
    "resourceRequirements": [
        {"type": "VCPU", "value": "96"},
        {"type": "MEMORY", "value": "700000"},
        {"type": "GPU", "value": "8"},
    ],
    "environment": [
        {"name": "SLIPWAY_ACCELERATOR", "value": "nvidia"},
        {"name": "SLIPWAY_ACCELERATORS", "value": "8"},
    ],
}
LAUNCH = "from slipway.containers.runtime.launch import launcher as l; exit(l.main(['--module', 'platform']))"


def test_nodes_of_gpus_start_where_all_are_well_and_else_name_the_one_that_is_ill(cluster: Cluster) -> None:
    """F47. The launcher asks programs that answer as NVIDIA's do."""
    cluster.define("gpus", container=GPUS)
    switch(cluster.yard, gpu_faults=0)
    job = cluster.submit(LAUNCH, definition="gpus")
    assert cluster.ended(job)["status"] == "SUCCEEDED", cluster.lines(job)
    switch(cluster.yard, gpu_faults=100)
    job = cluster.submit(LAUNCH, definition="gpus", retryStrategy={"attempts": 2})
    found = cluster.ended(job)
    assert found["status"] == "FAILED"
    assert any("is not fit for the job: " in line for line in cluster.lines(job)), cluster.lines(job)
    assert len(found["attempts"]) == 2, "another one may find a healthy node"
