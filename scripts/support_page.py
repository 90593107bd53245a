"""The page of what Slipway runs on, filled from locks, pyproject.toml and set-up."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from scripts.auditing import last_audit
from scripts.page_templates import filled
from scripts.set_up import OLDEST_NODE
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.jobs.words.images.support import TOOLS, Pinned, pinned_versions
from slipway.jobs.words.text import words

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ("amazon-linux", "debian", "ubuntu")
# What ranks train with goes before what the host has.
PYTHONS, TORCHES = ("training-python", "python"), ("training-pytorch", "pytorch")
# Who uses each lock: the road, and where its nodes run it.
USERS = {
    "pytorch": "GPUs and processors on AWS Batch and Slurm: AWS's container",
    "gpu": "the recipe `sft` on GPUs: a container",
    "sagemaker-pytorch": "SageMaker: AWS's container",
    "cpu": "processors on AWS Batch: a container of ours",
    "cpu-mpi": "c6i over MPI: an AMI",
    "gaudi": "DL1 on AWS Batch: a container",
    "gaudi-ecs": "DL1 on AWS Batch: an AMI",
    "gaudi-mpi": "DL1 over MPI: an AMI",
    "neuron": "Trn2 on AWS Batch: a container",
    "neuron-slurm": "Trn1 under Slurm: an AMI",
}


def support_page() -> str:
    locks = sorted(path.parent.name for path in CONTAINERS.glob("images/*/lock.toml"))
    of_locks = {name: pinned_versions(CONTAINERS, [name]) for name in locks}
    pinned = (*(each for versions in of_locks.values() for each in versions), *TOOLS)
    rows = sorted(pinned, key=lambda each: (each.until or date.max, each.image))
    return filled(
        "support",
        tools="".join(_tools(of_locks["cpu-mpi"])),
        nodes="".join(_nodes(name, of_locks[name]) for name in sorted(locks, key=list(USERS).index)),
        rows="".join(
            f"| {each.image} | {each.component} | {each.version} | {words(each.until)} |\n" for each in rows
        ),
        audited=last_audit(),
    )


def _tools(on_python: Sequence[Pinned]) -> Iterator[str]:
    """Yield what a machine needs that deploys and submits, and with what all tests run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    cdk = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]["aws-cdk"]
    (node,) = (each for each in TOOLS if each.component == "node")
    (python,) = (each for each in on_python if each.component == "python")
    boto3 = next(each for each in project["dependencies"] if each.startswith("boto3"))
    torch, library = extras["training"][0].partition("==")[2], extras["infra"][0].partition("==")[2]
    needed = project["requires-python"].removeprefix(">=")
    yield f"| Python | {needed} or newer | {python.version} | {words(python.until)} |\n"
    yield f"| Node.js, for the CDK | {OLDEST_NODE} or newer | {node.version} | {words(node.until)} |\n"
    yield f"| CDK command line | 2.1147 or newer | {cdk} | unknown |\n"
    yield f"| CDK library (`infra`) | {library} | {library} | unknown |\n"
    yield f"| boto3 | {boto3.partition('>=')[2]} or newer | of `scripts/locks` | unknown |\n"
    yield f"| PyTorch, for jobs in the yard (`training`) | {torch} | {torch} | unknown |\n"


def _nodes(name: str, pinned: Sequence[Pinned]) -> str:
    days = [each.until for each in pinned if each.until]
    cells = [f"{USERS[name]} `{name}`", *(_first(pinned, names) for names in (SYSTEMS, PYTHONS, TORCHES))]
    slurm = _first(pinned, ("slurm",))
    return f"| {' | '.join(cells)} | {slurm} | {words(min(days, default=None))} |\n"


def _first(pinned: Sequence[Pinned], names: Sequence[str]) -> str:
    found = (each for name in names for each in pinned if each.component == name)
    one = next(found, None)
    if one is None:
        return "–"
    return f"{one.component} {one.version}" if names is SYSTEMS else one.version
