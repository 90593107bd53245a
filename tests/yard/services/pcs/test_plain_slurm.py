"""Without root a deployed PCS cluster is still a real Slurm: plain processes of one user."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slipway.jobs.platforms.code_bundle import own_containers, pack
from slipway.jobs.platforms.slurm.request import build_request
from slipway.jobs.words import slurm
from slipway.jobs.words.job import Job, code_key
from slipway.jobs.words.slurm import SlurmRecord, decode_answer
from slipway.yard import process
from slipway.yard.endpoint import control
from slipway.yard.machines.hosts.inside import plain_sbatch
from slipway.yard.machines.hosts.instances import REPLACE_VARIABLE
from slipway.yard.machines.isolation.tiers import TIER_VARIABLE
from slipway.yard.machines.settings import CLOCK_VARIABLE
from tests.jobs.platforms.slurm.one_slurm import start_requeued
from tests.jobs.words.test_targets import SLURM_TARGET
from tests.yard.accounts import raise_quotas, stand_in
from tests.yard.conftest import RunningYard
from tests.yard.machines.hosts.conftest import Site
from tests.yard.services.pcs.pcs_site import NODE, PcsSite

IMAGE = "resolve:ssm:/slipway/amis/cpu-mpi/id"
BUCKET = "slipway-trn1-data"
FACTS = {
    "cluster": "trn1",
    "region": "us-east-1",
    "account": "123456789012",
    "bucket": BUCKET,
    "instance_type": "c6i.large",
    "file_system_mount": slurm.SHARED,
    "files": {"kind": "efs", "id": "fs-0123456789abcdef0", "path": slurm.SHARED},
}
USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="X"

--X
Content-Type: text/cloud-config; charset="utf-8"

#cloud-config
write_files:
- path: /etc/slipway/node.json
  content: '{}'
--X--
"""
# As `systemctl mask --runtime slurmd-25.11` leaves it.
MASKED = USER_DATA.replace("/etc/slipway/node.json", "/run/yard/masked/slurmd-25.11.service")
RANK_PROGRAM = Path(__file__).parents[3] / "jobs/platforms/slurm/rank_program.py"
TARGET = replace(
    SLURM_TARGET, queue="train", instance_type="c6i.large", efa_interfaces=0, job_timeout_seconds=3600
)
SETTINGS = {"Prolog": slurm.PROLOG, "AccountingStoreFlags": "job_comment"}
SLURM = {
    "accounting": {"mode": "STANDARD"},
    "slurmCustomSettings": [
        {"parameterName": name, "parameterValue": value} for name, value in SETTINGS.items()
    ],
}
# Real seconds for one of Slurm's: tests have no half hour for a node that boots.
CLOCK = "0.011"
OVER = ("COMPLETED", "FAILED", "CANCELLED")


def needs_slurm(test: Callable[[PlainCluster], None]) -> Callable[[PlainCluster], None]:
    """Leave to --all what test_slurm.py also tests, on hosts that boot."""
    return pytest.mark.slow(pytest.mark.long(test))


@dataclass(slots=True, kw_only=True)
class PlainCluster:
    hosts: Site
    pcs: Any
    template: str
    login: str
    workers: str  # the group's id
    code: str  # the digest of the jobs' code

    def says(self, *words: str) -> str:
        said = self.hosts.on(self.login, *words)
        assert said.code == 0, said
        return said.out.strip()

    def program(self, *words: str) -> str:
        """Run the run document's command, as Systems Manager does on such a host."""
        return self.says("sh", "-c", f'exec "$SLIPWAY_PYTHON" -m {slurm.NODE_MODULE} {shlex.join(words)}')

    def submit(self, name: str, **settings: str) -> tuple[str, str]:
        """Submit as `slipway submit` does; return Slurm's id and the submission's name."""
        job = Job(recipe="smoke", nodes=2, name=name, settings=settings)
        request = build_request(job, TARGET, module="rank_program", code=self.code)
        self.hosts.client("s3").put_object(
            Bucket=BUCKET, Key=request.put["Key"], Body=request.put["Body"].encode()
        )
        digest = sha256(request.put["Body"].encode()).hexdigest()
        return self.program("submit", request.put["Key"], digest), request.name

    def job(self, job: str) -> SlurmRecord:
        answer = decode_answer(self.program("status"))
        return next(record for record in answer.jobs if record.id == job)

    def ended(self, job: str) -> SlurmRecord:
        self.hosts.until(lambda: self.is_over(job))
        return self.job(job)

    def is_over(self, job: str) -> bool:
        """Look, and let a requeued job start before the end of the two minutes for which Slurm delays it."""
        state, reason = self.slurm_says(job)
        if reason == "BeginTime":
            start_requeued(partial(self.hosts.on, self.login), job)
        return state in OVER

    def slurm_says(self, job: str) -> list[str]:
        """Return the state and the reason."""
        return self.says("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T %r").split()

    def until(self, holds: Callable[[], Any]) -> Any:
        return self.hosts.until(holds)

    def instances(self) -> list[str]:
        """Return the instances of the workers."""
        return [str(host["instance"]) for host in self.hosts.hosts() if host["group"] == self.workers]

    def node(self, name: str) -> dict[str, str]:
        words = self.says("scontrol", "--oneliner", "show", "node", name).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def log(self, job: str) -> str:
        (output,) = re.findall(r"StdOut=(\S+)", self.says("scontrol", "show", "job", job))
        return self.says("sh", "-c", f"cat {shlex.quote(output)} || true")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainCluster]:
    home = tmp_path_factory.mktemp("p") / "home"  # names of sockets must be short
    with pytest.MonkeyPatch.context() as patch:
        if os.geteuid() == 0:  # otherwise the tier that there is
            patch.setenv(TIER_VARIABLE, "plain")
        patch.setenv(REPLACE_VARIABLE, "0.1")
        patch.setenv(CLOCK_VARIABLE, CLOCK)
        started = process.up(folder=home)
    yard = RunningYard(endpoint=started.state.endpoint, home=home)
    try:
        (how, *_) = control(yard, "GET", "/status")["slurm"]
        if how.startswith("no Slurm runs"):
            pytest.skip(how)
        raise_quotas(yard)
        stand_in(yard, "cpu-mpi")
        yield deployed(yard)
    finally:
        process.down(folder=home)


def deployed(yard: RunningYard) -> PlainCluster:
    site = PcsSite(yard, image=IMAGE)
    site.template = site.launch_template("shared", USER_DATA.format(json.dumps(FACTS)))
    site.profile = site.instance_profile("AWSPCS-shared", (*NODE, "s3:*"))
    identifier = site.cluster(slurmConfiguration=SLURM)["id"]
    hosts = Site(yard=yard, key=yard.home)
    small: dict[str, Any] = {"instanceConfigs": [{"instanceType": "c6i.large"}]}
    one: dict[str, Any] = {"scalingConfiguration": {"minInstanceCount": 1, "maxInstanceCount": 1}}
    two: dict[str, Any] = {"scalingConfiguration": {"minInstanceCount": 2, "maxInstanceCount": 2}}
    login = site.node_group(identifier, "login", **small, **one)["id"]
    workers = site.node_group(identifier, **small, **two)["id"]
    site.queue(identifier, workers)
    masked = {"customLaunchTemplate": {"id": site.launch_template("late", MASKED), "version": "1"}}
    site.queue(identifier, site.node_group(identifier, "late", **small, **masked)["id"], "late")
    s3 = yard.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    bundle = pack(own_containers(), beside={RANK_PROGRAM.name: RANK_PROGRAM.read_bytes()})
    s3.put_object(Bucket=BUCKET, Key=code_key(bundle.digest), Body=bundle.packed)

    def login_host() -> str:
        found = (host for host in hosts.hosts() if host["group"] == login and host["state"] == "running")
        return next((str(host["name"]) for host in found), "")

    name = hosts.until(login_host)
    asked = ("sinfo", "--noheader", "--partition=train", "--format=%D %T")
    hosts.until(lambda: hosts.on(name, *asked).out == "2 idle\n")
    return PlainCluster(
        hosts=hosts, pcs=site.pcs, template=site.template, login=name, workers=workers, code=bundle.digest
    )


@needs_slurm
def test_a_job_has_slurms_own_environment_on_nodes_that_are_plain_processes(cluster: PlainCluster) -> None:
    names = ("JOB_ID", "NNODES", "NODEID", "PROCID", "JOB_NODELIST")
    told = f"echo {' '.join(f'$SLURM_{name}' for name in names)} $SLIPWAY_NODE_ROOT"
    script = f"{cluster.hosts.yard.home}/tmp/told.sh"
    Path(script).write_text(f"#!/bin/sh\nsrun --ntasks-per-node=1 sh -c '{told}'\n")
    out = f"{script}.log"
    job = cluster.says("sbatch", "--parsable", "--partition=train", "--nodes=2", f"--output={out}", script)
    cluster.until(lambda: cluster.is_over(job))
    first, second = sorted(Path(out).read_text().splitlines())
    assert first.split()[:5] == [job, "2", "0", "0", "workers-[1-2]"]
    assert second.split()[:5] == [job, "2", "1", "1", "workers-[1-2]"]
    assert first.split()[5] != second.split()[5], "each node has a folder of its own"


@needs_slurm
def test_a_job_that_ends_while_its_accounts_are_dead_is_in_them_later(cluster: PlainCluster) -> None:
    folder = next((cluster.hosts.yard.home / "tmp/pcs").iterdir())
    for name in ("mariadbd.pid", "slurmdbd.pid"):
        os.kill(int((folder / name).read_text()), signal.SIGKILL)
    job, _ = cluster.submit("unheard")
    assert cluster.ended(job).state == "COMPLETED"
    asked = ("sacct", "-nXo", "state", f"--jobs={job}")  # fails until the accounts are back
    cluster.until(lambda: cluster.hosts.on(cluster.login, *asked).out.strip() == "COMPLETED")


@needs_slurm
def test_a_job_is_cancelled_and_none_of_its_processes_stays(cluster: PlainCluster) -> None:
    job, name = cluster.submit("cancelled", mode="resume")
    cluster.until(lambda: "trains" in cluster.log(job))
    assert cluster.program("cancel", f"jobs/{name}/request.json") == job
    assert cluster.ended(job).state == "CANCELLED"
    ranks = [path for path in Path("/proc").glob("[0-9]*/cmdline") if name in _text(path)]
    assert ranks == []


@needs_slurm
def test_a_job_that_loses_a_node_runs_again_with_another(cluster: PlainCluster) -> None:
    job, _ = cluster.submit("loses", mode="resume")
    cluster.until(lambda: "trains" in cluster.log(job))
    lost, *_ = cluster.instances()
    control(cluster.hosts.yard, "POST", "/kill-host", {"host": lost})
    cluster.until(lambda: cluster.job(job).restarts == 1)
    cluster.until(lambda: lost not in cluster.instances())


@needs_slurm
def test_a_node_whose_boot_is_forgotten_goes_down_and_its_job_runs_on_another(cluster: PlainCluster) -> None:
    """The launch template starts an instance without slurmd; EC2 and PCS find nothing wrong."""
    made = "--partition=late", "--nodes=1", "--output=/dev/null"
    job = cluster.says("sbatch", "--parsable", *made, "--wrap", "true")
    cluster.until(lambda: cluster.node("late-1")["State"].startswith("DOWN"))
    cluster.pcs.update_compute_node_group(
        clusterIdentifier="trn",
        computeNodeGroupIdentifier="late",
        customLaunchTemplate={"id": cluster.template, "version": "1"},  # with which slurmd starts
    )
    cluster.until(lambda: cluster.is_over(job))
    assert cluster.slurm_says(job)[0] == "COMPLETED"
    assert " NodeList=late-1 " not in cluster.says("scontrol", "--oneliner", "show", "job", job)
    cluster.until(lambda: cluster.node("late-1")["State"] == "IDLE+CLOUD+POWERED_DOWN")


@needs_slurm
def test_what_slurm_is_here_is_said(cluster: PlainCluster) -> None:
    how, *left_out = control(cluster.hosts.yard, "GET", "/status")["slurm"]
    assert how == "Slurm: without root its daemons and jobs are plain processes of this user, on 127.0.0.1"
    assert any("processes of this user" in line for line in left_out)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("exec /opt/slipway/venv/bin/python", "exec /h/opt/slipway/venv/bin/python"),
        ("export A='/shared/jobs/x'", "export A='/fs/jobs/x'"),
        ("--output=/shared/x.log", "--output=/fs/x.log"),
        ("/h/opt/slipway /sharedness /x/shared", "/h/opt/slipway /sharedness /x/shared"),
    ],
)
def test_a_machines_paths_in_a_jobs_script_are_those_of_the_hosts_folders(text: str, means: str) -> None:
    assert plain_sbatch.said(text, {"/opt/slipway": "/h/opt/slipway", "/shared": "/fs"}) == means


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
