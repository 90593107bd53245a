"""Write the pages about how far to trust Slipway: gates, layouts, supported versions, and the yard.

Each page is generated from what checks it, so that it says no more than was seen.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from scripts.auditing import last_audit
from scripts.page_templates import filled, table
from scripts.set_up import OLDEST_NODE
from slipway.containers.training.config import OLDEST, is_proved
from slipway.infra.declare.declared import load, load_machine_images
from slipway.infra.declare.machine_images import CONTAINERS
from slipway.infra.verify import nag, packs
from slipway.infra.verify.nag import Accepted
from slipway.infra.verify.wildcards import ANY_RESOURCE_REASONS
from slipway.jobs.words.images.containers import locked_torch
from slipway.jobs.words.images.support import TOOLS, Pinned, pinned_versions
from slipway.jobs.words.text import words
from slipway.yard.cloudformation.resources.provider import Fidelity
from slipway.yard.cloudformation.resources.registry import fidelities
from slipway.yard.services import fidelity, pretending

ROOT = Path(__file__).resolve().parent.parent

# Gates: the findings of cdk-nag's packs in each of our stacks, and why we accept them.
_PACKS = {"AwsSolutions": "AwsSolutions", **{kind: kind for kind in packs.WILDCARDS}, **packs.PACKS}


def gates_page() -> str:
    """Return the page of gates; this runs a synthesis."""
    counts = packs.count_findings(load({}), load_machine_images())
    stacks = sorted({stack for stack, _ in counts})
    total = ["all", *(sum(counts[stack, pack] for stack in stacks) for pack in _PACKS)]
    return filled(
        "gates",
        headings=" | ".join(["Stack", *_PACKS.values()]),
        lines="|".join(["---"] * (len(_PACKS) + 1)),
        findings=table([*([stack, *(counts[stack, pack] for pack in _PACKS)] for stack in stacks), total]),
        packs=table(map(_reason, packs.ACCEPTED)),
        own=table(map(_reason, nag.ACCEPTED)),
        any_resource=table(
            (", ".join(f"`{action}`" for action in actions.split()), reason)
            for reason, actions in ANY_RESOURCE_REASONS.items()
        ),
    )


def _reason(accepted: Accepted) -> tuple[str, str, str]:
    return accepted.rule, f"`{accepted.path}`".replace("|", "\\|"), accepted.reason


# Layouts: on which PyTorch each recipe trains in each layout, from the results of tests.
MEASURED = ROOT / "docs" / "lists" / "layouts.csv"
RIGHT = "as one rank"
# Why the release of PyTorch in an image is not proved, as seen there.
_REASONS: Mapping[str, str] = {
    "2.4.0": "it has no `fully_shard`, which the engine is made of",
    "2.9.0": "gloo aborts in every pipeline, and some shards of uneven rows are silently not trained",
}


def layouts_page() -> str:
    images = images_by_torch()
    with MEASURED.open(newline="", encoding="utf-8") as file:
        found = {(row["recipe"], row["layout"], row["torch"]): row["result"] for row in csv.DictReader(file)}
    return filled(
        "layouts",
        oldest=OLDEST["native"],
        images=table(
            (
                torch,
                ", ".join(names),
                "run" if is_proved("native", torch) else f"refused: {_REASONS.get(torch, 'not proved')}",
            )
            for torch, names in images.items()
        ),
        columns=" | ".join(images),
        lines="|".join("---" for _ in images),
        rows=table(
            (*case, *(_cell(torch, found.get((*case, torch))) for torch in images))
            for case in dict.fromkeys(key[:2] for key in found)
        ),
    )


def _cell(torch: str, result: str | None) -> str:
    if not is_proved("native", torch):
        return "refused"
    return "run" if result == RIGHT else f"**{result or 'not measured'}**"


def images_by_torch() -> dict[str, list[str]]:
    """Return the images that hold each release for ranks, the oldest release first."""
    found: dict[str, list[str]] = {}
    for path in sorted((CONTAINERS / "images").iterdir()):
        if path.is_dir() and (torch := locked_torch(CONTAINERS, path.name)):
            found.setdefault(torch.version, []).append(path.name)
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


# Support: what Slipway runs on, from locks, pyproject.toml and set-up.
SYSTEMS = ("amazon-linux", "debian", "ubuntu")
# The versions for ranks come before those of the host.
PYTHONS, TORCHES = ("training-python", "python"), ("training-pytorch", "pytorch")
# The road that uses each lock, and where its nodes run it.
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
        tools=table(_tools(of_locks["cpu-mpi"])),
        nodes=table(_node(name, of_locks[name]) for name in sorted(locks, key=list(USERS).index)),
        rows=table((each.image, each.component, each.version, words(each.until)) for each in rows),
        audited=last_audit(),
    )


def _tools(on_python: Sequence[Pinned]) -> Iterator[tuple[str, ...]]:
    """Yield what a machine needs to deploy and submit, and the versions with which all tests run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    cdk = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]["aws-cdk"]
    (node,) = (each for each in TOOLS if each.component == "node")
    (python,) = (each for each in on_python if each.component == "python")
    boto3 = next(each for each in project["dependencies"] if each.startswith("boto3"))
    torch, library = extras["training"][0].partition("==")[2], extras["infra"][0].partition("==")[2]
    needed = project["requires-python"].removeprefix(">=")
    yield "Python", f"{needed} or newer", python.version, words(python.until)
    yield "Node.js, for the CDK", f"{OLDEST_NODE} or newer", node.version, words(node.until)
    yield "CDK command line", "2.1147 or newer", cdk, "unknown"
    yield "CDK library (`infra`)", library, library, "unknown"
    yield "boto3", f"{boto3.partition('>=')[2]} or newer", "of `scripts/locks`", "unknown"
    yield "PyTorch, for jobs in the yard (`training`)", torch, torch, "unknown"


def _node(name: str, pinned: Sequence[Pinned]) -> Iterator[str]:
    days = [each.until for each in pinned if each.until]
    yield f"{USERS[name]} `{name}`"
    yield from (_first(pinned, names) for names in (SYSTEMS, PYTHONS, TORCHES, ("slurm",)))
    yield words(min(days, default=None))


def _first(pinned: Sequence[Pinned], names: Sequence[str]) -> str:
    found = (each for name in names for each in pinned if each.component == name)
    one = next(found, None)
    if one is None:
        return "–"
    return f"{one.component} {one.version}" if names is SYSTEMS else one.version


# The yard: how each type of resource and each call is imitated.


def fidelity_page() -> str:
    words_of_calls = (fidelity.OWN, fidelity.MOTO, fidelity.REFUSED)
    return filled(
        "yard-fidelity",
        less="".join(f"- {line}\n" for line in pretending.LESS_THAN_AWS),
        refusals=table((":".join(call), reason) for call, reason in sorted(pretending.REASONS.items())),
        types="\n".join(map(_types, Fidelity)),
        counts=table((row["service"], *(row[word] for word in words_of_calls)) for row in fidelity.summary()),
        own=table(_named(fidelity.OWN)),
        moto=table(_named(fidelity.MOTO)),
    )


def _types(kind: Fidelity) -> str:
    names = sorted(name for name, one in fidelities().items() if one is kind)
    by_service: dict[str, list[str]] = {}
    for name in names:
        service, _, rest = name.rpartition("::")
        by_service.setdefault(service, []).append(rest)
    rows = table((service, ", ".join(listed)) for service, listed in by_service.items())
    return f"### {kind.value.capitalize()}: {len(names)}\n\n| Service | Types |\n|---|---|\n{rows}"


def _named(word: str) -> Iterator[tuple[str, str]]:
    for service, fidelities_of in fidelity.calls().items():
        if names := sorted(name for name, one in fidelities_of.items() if one == word):
            yield service, ", ".join(names)
