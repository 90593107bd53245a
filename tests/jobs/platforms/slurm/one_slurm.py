"""Starts a real Slurm on this machine as plain processes of the user: a controller and two nodes.

It is up in a second. There is no munge (auth/none) and no cgroup.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.jobs.platforms.slurm.node.allocation import read_queue
from tests.waiting import until

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
NODES = ("n1", "n2")
PARTITION = "trn1"
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_SAME_SECOND = 1.5
_PATIENT = "MessageTimeout=3"
_CONFIG = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=1,batch_sched_delay=0,nohold_on_prolog_fail
Prolog={folder}/prolog.sh
MpiDefault=none
MessageTimeout=3
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
GresTypes=neuron
NodeName=DEFAULT CPUs=8 RealMemory=64000 Gres=neuron:16
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} Weight=10
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def start_requeued(ask: Callable[..., object], job: str) -> None:
    """Let a requeued job start before the end of the two minutes for which Slurm delays it.

    It must not start in the same second: a node's daemon counts in seconds, so it would take the new start
    for the old one that it has just ended ("already killed, do not launch"), and the job would be FAILED.
    """
    time.sleep(_SAME_SECOND)
    ask("scontrol", "update", f"jobid={job}", "starttime=now")


def is_installed() -> bool:
    return all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROGRAMS)


@dataclass(slots=True)
class OneSlurm:
    folder: Path
    settings: str = ""  # further lines of slurm.conf
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "SLIPWAY_PYTHON": sys.executable}

    def start(self) -> None:
        ports = dict(zip(("controller", "first", "second"), _free_ports(3), strict=True))
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        host = socket.gethostname().split(".")[0]
        names = {"host": host, "user": user, "folder": self.folder, "partition": PARTITION, **ports}
        (self.folder / "slurm.conf").write_text(_CONFIG.format(**names) + self.settings)
        (self.folder / "gres.conf").write_text("NodeName=n[1-2] Name=neuron Count=16\n")
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir()
        self.write_prolog(["exit 0"])
        self.start_controller()
        for node in NODES:
            self._start(node, ["slurmd", "-D", "-b", "-N", node])
        self.await_idle()

    def await_idle(self) -> None:
        """Wait until both nodes are free, because then n1 is taken first."""
        self.until(lambda: self.ask("sinfo", "--noheader", "--format=%T %D").split() == ["idle", "2"], "idle")

    def start_controller(self) -> None:
        self._start("controller", ["slurmctld", "-D"])
        self.until(lambda: "UP" in self._said(["scontrol", "ping"]), "answering")

    def end_controller(self) -> None:
        """End it so that it writes its state: after a kill it would take jobs that are over for running."""
        controller = self.daemons.pop("controller")
        controller.terminate()
        controller.wait()

    def impatient(self) -> Path:
        """Return settings with which Slurm's programs ask a dead controller for only a second."""
        path = self.folder / "impatient.conf"
        path.write_text((self.folder / "slurm.conf").read_text().replace(_PATIENT, "MessageTimeout=1"))
        return path

    def stop(self) -> None:
        for daemon in self.daemons.values():
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons.values():
            daemon.wait(30)

    def write_prolog(self, lines: Sequence[str]) -> None:
        path = self.folder / "prolog.sh"
        path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        path.chmod(0o755)

    def ask(self, *words: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        ran = subprocess.run(
            words,
            env={**self.environment, **(environment or {})},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{words}: {ran.stderr}{ran.stdout}"
        return ran.stdout.strip()

    def state(self, job: str) -> str:
        return self.ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")

    def ended(self, job: str) -> str:
        """Wait for the end of a job, and return its state in Slurm."""
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

        def is_over() -> bool:
            if (
                self.ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%r")
                == "BeginTime"
            ):
                start_requeued(self.ask, job)
            return self.state(job) in over

        self.until(is_over, f"over: {job}")
        return self.state(job)

    def count_jobs(self) -> int:
        return len(read_queue(self.ask("squeue", "--json", "--states=all")))

    def until(self, is_so: Callable[[], object], what: str) -> None:
        def otherwise() -> str:
            logs = "".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log")))
            nodes = self._said(["sinfo", "--Node", "--long"])
            return f"Slurm is not {what}; {nodes} and its logs end with {logs}"

        until(is_so, otherwise, patience_s=_END_SECONDS, look_again_s=_LOOK_SECONDS)

    def _start(self, name: str, words: list[str]) -> None:
        program = shutil.which(words[0], path=f"{os.environ['PATH']}:/usr/sbin")
        assert program
        with (self.folder / f"{name}.out").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [program, *words[1:], "-f", str(self.folder / "slurm.conf")],
                env=self.environment,
                stdout=output,
                stderr=output,
            )

    def _said(self, words: list[str]) -> str:
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False).stdout


def _free_ports(count: int) -> list[int]:
    with_sockets = [socket.socket() for _ in range(count)]
    for one in with_sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in with_sockets]
    for one in with_sockets:
        one.close()
    return ports
