"""A deployed PCS cluster is a real Slurm: one cluster, with a login node and workers that come and go.

Each host takes seconds to boot systemd, so each test uses the cluster as the previous one left it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slipway.infra.clusters import CLUSTERS
from slipway.infra.declare.types import NodeCluster
from slipway.infra.patterns.nodes.boot import SLURM_MEMBERSHIP, boot_parameters
from slipway.infra.patterns.storage.file_systems import NO_FILES
from slipway.jobs.platforms.slurm.login_node import node_reasons
from slipway.jobs.words import slurm as places
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.slurm import decode_answer
from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts import boot_ways
from slipway.yard.machines.hosts.instances import REPLACE_VARIABLE
from slipway.yard.services.pcs import differences
from tests import wrong_clock
from tests.fault_clock import FaultClock
from tests.jobs.platforms.slurm.one_slurm import start_requeued
from tests.waiting import until
from tests.yard.accounts import raise_quotas, stand_in
from tests.yard.conftest import RunningYard
from tests.yard.machines.hosts.conftest import Site
from tests.yard.services.pcs.pcs_site import NEURON, PcsSite

PATIENCE_S = 300.0
LOOK_AGAIN_S = 1.0  # each look is a session on a host
IMAGE = "resolve:ssm:/slipway/amis/cpu-mpi/id"  # a stand-in: nothing is baked
# The job's first attempt waits to be interrupted; the others end at once.
JOB = '#!/bin/bash\nsrun hostname\n[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || sleep 600\n'
JOB_FILE = "/srv/job.sh"
INTERRUPTED = "interrupted"
SAVED = "00:00:15"  # by then the controller has written down that the job runs
# The loop that starts slurmctld is paused until the test lets it go on.
KILL_FOR_A_WHILE = """\
pid=$(cat /run/slurmctld.pid); starter=$(awk '/^PPid:/ {print $2}' /proc/$pid/status)
kill -STOP $starter; kill -KILL $pid; echo $starter
"""
KEY = "/etc/munge/munge.key"
DROP_IN = "/run/systemd/system/munge.service.d"
SLURM: dict[str, Any] = {"scaleDownIdleTimeInSeconds": 5, "accounting": {"mode": "STANDARD"}}

pytestmark = pytest.mark.slow


@dataclass(slots=True, kw_only=True)
class SlurmSite:
    """Hold the deployed cluster, and type commands on its login node."""

    hosts: Site
    pcs: PcsSite
    login_group: str

    @property
    def login(self) -> str:
        return str(next(host["name"] for host in self.hosts.hosts() if host["group"] == self.login_group))

    def says(self, *words: str) -> str:
        said = self.hosts.on(self.login, *words)
        assert said.code == 0, said
        return said.out.strip()

    def node(self, name: str) -> dict[str, str]:
        words = self.says("scontrol", "--oneliner", "show", "node", name).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def job(self, job: str) -> dict[str, str]:
        words = self.says("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def until(self, holds: Callable[[], Any]) -> Any:
        return until(
            holds,
            lambda: f"it never came: {self.says('sinfo', '-N', '-l')} {self.says('squeue')}",
            patience_s=PATIENCE_S,
            look_again_s=LOOK_AGAIN_S,
        )

    def submit(self, *words: str) -> str:
        return self.says("sbatch", "--parsable", "--chdir=/srv", "--partition=train", *words)

    def runs_for_a_while(self) -> str:
        """Submit a job that waits to be interrupted; return once the controller has saved that it runs."""
        job = self.submit("--nodes=1", JOB_FILE)
        self.until(lambda: self.state(job) == "RUNNING" and self.job(job)["RunTime"] >= SAVED)
        return job

    def host_of(self, job: str) -> dict[str, Any]:
        """Return the host of the first node that a job runs on."""
        address = self.node(self.job(job)["BatchHost"])["NodeAddr"]
        return next(host for host in self.hosts.hosts() if host["address"] == address)

    def interrupted(self) -> str:
        return self.says("squeue", "--noheader", "--states=all", "--format=%i", f"--name={INTERRUPTED}")

    def completes(self, job: str, *, restarts: str) -> None:
        self.until(lambda: self.job(job)["Restarts"] == restarts)
        self.until(lambda: self._has_completed(job))

    def _has_completed(self, job: str) -> bool:
        """Look, and let a requeued job start before the end of the two minutes for which Slurm delays it."""
        found = self.job(job)
        if found["Reason"] == "BeginTime":
            start_requeued(partial(self.hosts.on, self.login), job)
        return found["JobState"] == "COMPLETED"

    def state(self, job: str) -> str:
        return self.job(job)["JobState"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    if why := differences.obstacle() or boot_ways.obstacle_here():
        pytest.skip(f"no Slurm of the yard runs here: {why}")
    home = tmp_path_factory.mktemp("slurm") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(REPLACE_VARIABLE, "0.1")
        started = process.up(folder=home)
    yard = RunningYard(endpoint=started.state.endpoint, home=home)
    try:
        raise_quotas(yard)
        stand_in(yard, "cpu-mpi")
        yield deployed(PcsSite(yard, image=IMAGE))
    finally:
        process.down(folder=home)


def deployed(site: PcsSite) -> SlurmSite:
    cluster = site.cluster(slurmConfiguration=SLURM)["id"]
    hosts = Site(yard=site.yard, key=site.yard.home)
    hosts.until(lambda: site.pcs.get_cluster(clusterIdentifier=cluster)["cluster"]["status"] == "ACTIVE")
    only: dict[str, Any] = {"scalingConfiguration": {"minInstanceCount": 1, "maxInstanceCount": 1}}
    login = site.node_group(cluster, "login", instanceConfigs=[{"instanceType": "c6i.large"}], **only)
    two: dict[str, Any] = {"scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 2}}
    workers = site.node_group(cluster, slurmConfiguration=NEURON, **two)
    site.queue(cluster, workers["id"])
    made = SlurmSite(hosts=hosts, pcs=site, login_group=str(login["id"]))
    booted = (made.login_group, "running")
    hosts.until(lambda: any((host["group"], host["state"]) == booted for host in hosts.hosts()))
    made.until(lambda: "train" in made.hosts.on(made.login, "sinfo").out)
    made.hosts.on(made.login, "bash", "-c", f"cat >{JOB_FILE} <<'JOB'\n{JOB}JOB")
    return made


def instances(slurm: SlurmSite, group: str) -> list[str]:
    filters = [
        {"Name": f"tag:{places.GROUP_TAG}", "Values": [group]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = slurm.pcs.yard.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [each["InstanceId"] for part in found for each in part["Instances"]]


def workers(slurm: SlurmSite) -> str:
    which = {"clusterIdentifier": "trn", "computeNodeGroupIdentifier": "workers"}
    return str(slurm.pcs.pcs.get_compute_node_group(**which)["computeNodeGroup"]["id"])


def refused(slurm: SlurmSite) -> tuple[str, ...]:
    """Return why nodes have no instance, as the login node's program reads it from Slurm."""
    return node_reasons(decode_answer(slurm.says(places.PYTHON, "-m", places.NODE_MODULE, "status")).nodes)


def test_queues_and_node_groups_are_slurms_partitions_and_nodes_that_are_off(slurm: SlurmSite) -> None:
    slurm.until(lambda: slurm.pcs.pcs.get_cluster(clusterIdentifier="trn")["cluster"]["status"] == "ACTIVE")
    assert slurm.says("sinfo", "-h", "-o", "%P %D %T %G %c") == "train 2 idle~ neuron:16 128"
    assert instances(slurm, workers(slurm)) == []
    # Runs between registration and slurmd, as in the user guide.
    assert slurm.says("cat", "/run/trial") == "the script of user data ran before slurmd"


def test_a_node_whose_slurm_runs_has_joined_and_waited_for_its_files(slurm: SlurmSite) -> None:
    """Its machine image's watchdog sees a unit of the name that AWS's installer gives it."""
    (trn1,) = (cluster for cluster in CLUSTERS if cluster.name == "trn1")
    assert isinstance(trn1, NodeCluster)
    told = json.dumps(boot_parameters(trn1, NO_FILES, SLURM_MEMBERSHIP))
    slurm.says("sh", "-c", 'printf %s "$0" >/run/trial.json', told)
    watch = ("SLIPWAY_PARAMETERS=/run/trial.json", "SLIPWAY_STATE=/run/trial-state")
    slurm.says("env", *watch, "/usr/lib/slipway/watch_join.sh")
    assert slurm.says("ls", "/run/trial-state") == "joined"
    unit = ("--property=Requires", "--value", "slurmd-25.11.service")
    assert "slipway-boot.service" in slurm.says("systemctl", "show", *unit).split()


def test_the_login_node_takes_commands_of_systems_manager(slurm: SlurmSite) -> None:
    ssm, (login,) = slurm.pcs.yard.client("ssm"), instances(slurm, slurm.login_group)
    asked = {"DocumentName": "AWS-RunShellScript", "Parameters": {"commands": ["sinfo -h -o %P"]}}
    command = ssm.send_command(InstanceIds=[login], **asked)["Command"]["CommandId"]
    which = {"CommandId": command, "InstanceId": login}
    slurm.until(lambda: ssm.get_command_invocation(**which)["Status"] not in ("Pending", "InProgress"))
    assert ssm.get_command_invocation(**which)["StandardOutputContent"] == "train\n"


def test_more_devices_than_a_node_has_are_refused(slurm: SlurmSite) -> None:
    said = slurm.hosts.on(slurm.login, "sbatch", "-p", "train", "--gres=neuron:17", JOB_FILE)
    assert (said.code, "configuration is not available" in said.errors) == (1, True), said


def test_nodes_without_capacity_requeue_the_job_and_the_group_says_why(slurm: SlurmSite) -> None:
    control(slurm.pcs.yard, "POST", "/switches", {"values": {"no-capacity": 100}})
    job = slurm.submit("--nodes=1", "--gres=neuron:16", JOB_FILE)
    assert slurm.until(lambda: slurm.job(job)["Restarts"] != "0")
    control(slurm.pcs.yard, "POST", "/switches", {"values": {"no-capacity": 0}})
    which = {"clusterIdentifier": "trn", "computeNodeGroupIdentifier": "workers"}
    (error, *_) = slurm.pcs.pcs.get_compute_node_group(**which)["computeNodeGroup"]["errorInfo"]
    assert error["code"] == "InsufficientInstanceCapacity"
    assert refused(slurm) == ("InsufficientInstanceCapacity",)
    slurm.says("scancel", job)


def test_a_job_starts_the_instances_that_it_needs(slurm: SlurmSite) -> None:
    job = slurm.submit("--nodes=2", "--gres=neuron:16", f"--job-name={INTERRUPTED}", JOB_FILE)
    slurm.until(lambda: slurm.state(job) == "RUNNING")
    assert len(instances(slurm, workers(slurm))) == 2
    assert refused(slurm) == ()


def test_a_job_that_loses_a_node_runs_again_with_another(slurm: SlurmSite, fault: FaultClock) -> None:
    """F07"""
    job = slurm.interrupted()
    killed = slurm.host_of(job)
    with pytest.raises(SlipwayError, match="has no node 2; it has 0 to 1"):
        control(slurm.pcs.yard, "POST", "/kill-node", {"job": job, "node": 2})
    first = {"job": INTERRUPTED, "node": 0}  # BI-435
    fault.strikes()
    assert control(slurm.pcs.yard, "POST", "/kill-node", first) == INTERRUPTED
    slurm.completes(job, restarts="1")
    fault.is_over()
    assert killed["instance"] not in instances(slurm, workers(slurm))


def test_a_job_that_is_requeued_runs_again(slurm: SlurmSite) -> None:
    job = slurm.interrupted()
    slurm.says("scontrol", "requeue", job)
    slurm.completes(job, restarts="2")


def test_sacct_tells_how_each_attempt_of_a_job_ended(slurm: SlurmSite) -> None:
    asked = (
        "sacct",
        "--noheader",
        "--allocations",
        "--duplicates",
        "--format=state",
        f"--name={INTERRUPTED}",
    )
    slurm.until(lambda: slurm.says(*asked).split() == ["NODE_FAIL", "REQUEUED", "COMPLETED"])


def test_nodes_that_are_idle_are_given_back_and_one_that_is_drained_too(slurm: SlurmSite) -> None:
    slurm.says("scontrol", "update", "nodename=workers-2", "state=drain", "reason=unhealthy")
    assert "DRAIN" in slurm.node("workers-2")["State"]
    slurm.until(lambda: instances(slurm, workers(slurm)) == [])
    # Slurm's idle_on_node_suspend: the instance was unhealthy, and the next one starts afresh.
    slurm.until(lambda: "DRAIN" not in slurm.node("workers-2")["State"])


@pytest.mark.long
def test_a_controller_that_dies_disturbs_no_job_which_runs_again_when_it_loses_its_node_later(
    slurm: SlurmSite,
) -> None:
    job = slurm.runs_for_a_while()
    slurm.hosts.on("slurmctld-trn", "sh", "-c", "kill -KILL $(cat /run/slurmctld.pid)")
    slurm.until(lambda: slurm.hosts.on(slurm.login, "scontrol", "show", "job", job).code == 0)
    assert (slurm.state(job), slurm.job(job)["Restarts"]) == ("RUNNING", "0")
    control(slurm.pcs.yard, "POST", "/kill-host", {"host": slurm.host_of(job)["name"]})
    slurm.completes(job, restarts="1")


@pytest.mark.long
def test_a_node_that_is_lost_while_the_controller_is_dead_is_told_to_the_next_one(slurm: SlurmSite) -> None:
    job = slurm.runs_for_a_while()
    killed = slurm.host_of(job)
    starter = slurm.hosts.on("slurmctld-trn", "sh", "-c", KILL_FOR_A_WHILE).out.strip()
    try:
        control(slurm.pcs.yard, "POST", "/kill-host", {"host": killed["name"]})
        # Slurm's client asks again for a while, and gives up; what the yard says next is lost, too.
        log = slurm.pcs.yard.home / "server.log"
        unheard = "Unable to contact slurm controller"
        slurm.until(lambda: log.read_text(errors="replace").count(unheard) > 1)
    finally:
        slurm.hosts.on("slurmctld-trn", "kill", "-CONT", starter)
    slurm.until(lambda: slurm.hosts.on(slurm.login, "scontrol", "show", "job", job).code == 0)
    slurm.completes(job, restarts="1")


def is_named_until_mended(slurm: SlurmSite, broken: str, mended: str) -> None:
    """Check that the controller hangs up on a node after one script, and no longer after the other."""
    asked = (places.PYTHON, "-m", places.NODE_MODULE, "status")
    try:
        slurm.says("sh", "-c", f"{broken} && systemctl restart munge")
        notes = decode_answer(slurm.says(*asked)).notes
    finally:
        slurm.says("sh", "-c", f"{mended} && systemctl restart munge")
    said = f"Slurm's controller hangs up on node {slurm.says('hostname', '-s')}: its key or its clock"
    assert any(said in note for note in notes), notes
    assert not any("hangs up" in note for note in decode_answer(slurm.says(*asked)).notes)


def test_a_node_with_another_key_than_the_controllers_is_named(slurm: SlurmSite) -> None:
    slurm.says("sh", "-c", f"cp -p {KEY} {KEY}.kept && head -c 128 /dev/urandom >{KEY}")
    is_named_until_mended(slurm, broken="true", mended=f"mv {KEY}.kept {KEY}")


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_node_with_another_time_than_the_controllers_is_named(
    slurm: SlurmSite, seconds: int, tmp_path: Path
) -> None:
    """F36. Munge takes a credential for expired, or for made in the future, after five minutes."""
    made = wrong_clock.library(tmp_path)
    content = base64.b64encode(made.read_bytes()).decode()
    slurm.says("sh", "-c", 'echo "$0" | base64 -d >/usr/local/lib/wrong_clock.so', content)
    told = wrong_clock.variables(Path("/usr/local/lib/wrong_clock.so"), seconds)
    lines = ["[Service]", *(f"Environment={name}={value}" for name, value in told.items())]
    slurm.says("sh", "-c", f'mkdir -p {DROP_IN} && echo "$0" >{DROP_IN}/clock.conf', "\n".join(lines))
    read_again = "systemctl daemon-reload"
    is_named_until_mended(slurm, broken=read_again, mended=f"rm -r {DROP_IN} && {read_again}")


def test_a_deleted_cluster_leaves_no_host_and_no_interface(slurm: SlurmSite) -> None:
    which = {"clusterIdentifier": "trn"}
    slurm.pcs.pcs.delete_queue(**which, queueIdentifier="train")
    for group in ("workers", "login"):
        slurm.pcs.pcs.delete_compute_node_group(**which, computeNodeGroupIdentifier=group)
    slurm.pcs.pcs.delete_cluster(**which)
    slurm.hosts.until(lambda: not slurm.hosts.hosts())
    ec2 = slurm.pcs.yard.client("ec2")
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
