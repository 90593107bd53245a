"""Decides which processes, files and environments an attempt has: the plan for isolation/cluster.py."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.containers.runtime.contract import variables
from slipway.yard.chaos import conditions
from slipway.yard.machines import gpu_programs, storage
from slipway.yard.machines.isolation.tiers import Tier
from slipway.yard.machines.settings import CHECKOUT, STAND_IN, interpreter
from slipway.yard.permissions import keys
from slipway.yard.permissions.keys import RoleSession
from slipway.yard.services.batch import capacity, overrides, task_roles
from slipway.yard.services.batch.attempt_processes import write_plan
from slipway.yard.services.batch.job_store import BatchJob, JobAttempt

PYTHONS = ("python", "python3")
WORK = "/job"  # the folder in which a command starts
SHARED_MEMORY_MIB = 64  # Docker's default
_NODES_IN_A_ROW = 200
_GPU_PROGRAMS = "/usr/local/nvidia/bin"  # first on PATH in NVIDIA's images

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Holds what all nodes of one attempt share."""

    job: BatchJob
    attempt: JobAttempt
    environment: Any  # moto's compute environment
    tier: Tier
    folder: Path

    def address(self, node: int) -> str:
        """Return the node's address; each attempt has other addresses, as new instances would."""
        row = (self.attempt.number * 8 + node // _NODES_IN_A_ROW) % 256
        return f"{'10' if self.tier.isolated else '127'}.0.{row}.{10 + node % _NODES_IN_A_ROW}"


def write(stage: Stage) -> Path:
    """Write the plan; return the file, which isolation/cluster.py reads."""
    shared = storage.shared_paths(stage.environment, stage.job.region)
    containers = capacity.containers(stage.job)
    nodes = [_node(stage, index, container, shared) for index, container in enumerate(containers)]
    hosts = _hosts(nodes)
    for node in nodes:
        known = _hosts([node]) if conditions.strikes("dns", "node") else hosts
        (Path(node["folder"]) / "hosts").write_text(known, encoding="utf-8")
    return write_plan(stage.folder, stage.tier, nodes)


def _node(stage: Stage, index: int, container: Mapping[str, Any], shared: Mapping[str, str]) -> Node:
    job, folder = stage.job, stage.folder / f"node-{index}"
    for name in ("tmp", "work"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    linux = container.get("linuxParameters") or {}
    # Without a command AWS would run the image's own, and the yard runs nothing.
    words = overrides.command(container, job.definition, job.submit) or ["true"]
    # EC2 names an instance after its address.
    domain = "ec2.internal" if job.region == "us-east-1" else f"{job.region}.compute.internal"
    session = task_roles.of_job(container, stage.environment, job.region, stage.attempt.nodes[index].task_id)
    node: Node = {
        "index": index,
        "folder": str(folder),
        "cwd": WORK,
        "hostname": f"ip-{stage.address(index).replace('.', '-')}.{domain}",
        "address": f"{stage.address(index)}/16",
        "argv": [interpreter(), *words[1:]] if words[0] in PYTHONS else words,
        "environment": of_container(stage, index, container, session),
        "mounts": [(str(folder / "work"), WORK), *storage.mounts(container, shared, folder)],
        "shared_memory_mib": linux.get("sharedMemorySize") or SHARED_MEMORY_MIB,
        "init": bool(linux.get("initProcessEnabled")),
        "link": conditions.faults_of_links(),
        "launch_seconds": conditions.seconds("launch-delay", "node"),
    }
    if gpus := overrides.resource(container, "GPU", "gpus"):
        _add_gpu_programs(node, folder / "gpus", gpus)
    return node if stage.tier.isolated else _without_mounts(node)


def _add_gpu_programs(node: Node, folder: Path, gpus: int) -> None:
    """Give a node the programs of NVIDIA's container runtime that health checks call."""
    answers = gpu_programs.of_node(gpu_programs.RECORDED, gpus)
    if conditions.strikes("gpu-faults", "node"):
        faults = list(gpu_programs.FAULTS.values())
        answers = faults[int(conditions.draw("gpu-faults", "which") * len(faults))](answers)
    gpu_programs.write(folder, answers)
    node["mounts"].append((str(folder), _GPU_PROGRAMS))
    environment = node["environment"]
    environment["PATH"] = os.pathsep.join((_GPU_PROGRAMS, environment["PATH"]))
    environment[variables.STAND_IN] = gpu_programs.STAND_IN


def _hosts(nodes: Sequence[Node]) -> str:
    """Return the text of /etc/hosts, which replaces DNS; torch also looks up IPv4-mapped addresses."""
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    for node in nodes:
        address, name = node["address"].partition("/")[0], node["hostname"]
        names = f"{name} {name.partition('.')[0]}"
        lines += [f"{address} {names}", f"::ffff:{address} {names}"]
    return "\n".join(lines) + "\n"


def _without_mounts(node: Node) -> Node:
    """Replace the paths of mounts by the folders behind them, for machines that cannot mount."""

    def replaced(text: str) -> str:
        for source, target in reversed(node["mounts"]):
            place = source.replace("\\", r"\\")
            text = re.sub(rf"(?<![\w/.-]){re.escape(target)}(?![\w.-])", place, text)
        return text

    environment = {name: replaced(value) for name, value in node["environment"].items()}
    return {
        **node,
        "argv": [node["argv"][0], *map(replaced, node["argv"][1:])],
        "environment": environment,
        "cwd": replaced(WORK),
    }


# The environment of a container, as AWS Batch sets it (user guide, job environment variables). To add one of
# Batch's variables: a line of _of_batch. Of this machine's environment a job gets only KEPT.
KEPT = ("PATH", "HOME", "LANG")  # compilers and ninja are found on PATH, their caches at HOME


def of_container(
    stage: Stage, index: int, container: Mapping[str, Any], session: RoleSession | None
) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in KEPT if name in os.environ}
    programs = [str(Path(interpreter()).parent), inherited.get("PATH", os.defpath)]
    given = {item["name"]: item.get("value", "") for item in container.get("environment", ())}
    return {
        **inherited,
        "PATH": os.pathsep.join(programs),
        "PYTHONPATH": str(CHECKOUT),
        **given,
        "AWS_REGION": stage.job.region,
        "AWS_DEFAULT_REGION": stage.job.region,
        **keys.container_variables(session),  # on AWS, ECS gives the key at an address
        **_of_batch(stage, index),
        **STAND_IN,
    }


def _of_batch(stage: Stage, index: int) -> dict[str, str]:
    job = stage.job
    variables = {
        "AWS_BATCH_CE_NAME": stage.environment.name,
        "AWS_BATCH_JOB_ATTEMPT": str(stage.attempt.number),
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JQ_NAME": job.queue.rpartition("/")[2],
    }
    if job.node_properties is not None:
        variables |= {
            "AWS_BATCH_JOB_ID": f"{job.id}#{index}",
            "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(job.main_node),
            "AWS_BATCH_JOB_NODE_INDEX": str(index),
            "AWS_BATCH_JOB_NUM_NODES": str(job.nodes),
        }
        if index != job.main_node:  # only nodes other than the main one get it
            variables["AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] = stage.address(job.main_node)
    if job.index is not None:
        variables["AWS_BATCH_JOB_ARRAY_INDEX"] = str(job.index)
        variables["AWS_BATCH_JOB_ARRAY_SIZE"] = str(len(job.parent.children) if job.parent else 0)
    return variables
