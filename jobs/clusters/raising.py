"""Finds what a declared cluster lacks before jobs can run on it, shows its price, and does the missing steps.

A step is a command that a user could type. It asks or does nothing if its work is done, so an interrupted
`up` can be repeated. A further step is a function and a line of _STEPS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.infra.declare.node_images import ami_parameter_of
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.cloud.templates import Templates, names_in_cdk
from slipway.jobs.clusters.cdk import run_cdk
from slipway.jobs.clusters.preflight import account
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.verdicts import CheckOutcome
from slipway.jobs.words.images.amis import bakery_stack_name, image_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    why: str
    command: tuple[str, ...]

    @property
    def words(self) -> str:
        return " ".join(self.command)


def missing_steps(cluster: Cluster, facts: Facts) -> tuple[Step, ...]:
    """Return the missing steps in order; a deployment is always one, since it also changes what differs."""
    return tuple(step for steps in _STEPS for step in steps(cluster, facts))


def _bootstrap(cluster: Cluster, facts: Facts) -> Iterator[Step]:
    verdict = account.bootstrap(cluster, facts)
    if verdict.outcome is CheckOutcome.FAILED:
        yield Step(why=verdict.found, command=tuple(verdict.fix.split()))


def _quota(cluster: Cluster, facts: Facts) -> Iterator[Step]:
    verdict = account.quota(cluster, facts)
    if verdict.outcome is CheckOutcome.FAILED:
        command = ("slipway", "cluster", "quota", cluster.name, "--request", "--wait")
        yield Step(why=f"{verdict.found}; AWS takes minutes to days", command=command)


def _bake(cluster: Cluster, facts: Facts) -> Iterator[Step]:
    image = image_of(ami_parameter_of(cluster)) if isinstance(cluster, NodeCluster) else None
    if image is None or facts.parameter is not None:
        return
    yield Step(why=f"{image}, its AMI, is not baked", command=("cdk", "deploy", bakery_stack_name(image)))
    bake = ("slipway", "image", "bake", image, "--wait", "--region", cluster.region)
    yield Step(why="a bake takes half an hour on AWS", command=bake)


def _deploy(cluster: Cluster, _facts: Facts) -> Iterator[Step]:
    yield Step(why="makes its stacks, or changes what differs", command=("cdk", "deploy", cluster.name))


_STEPS: tuple[Callable[[Cluster, Facts], Iterator[Step]], ...] = (_bootstrap, _quota, _bake, _deploy)


def synthesize(cluster: Cluster, folder: Path) -> Templates:
    """Write and check the cluster's templates in the folder, from which they are deployed later."""
    again = f"slipway up {cluster.name}"
    run_cdk(
        "synth",
        cluster.name,
        "--quiet",
        "--output",
        str(folder),
        again=again,
        is_silent=True,
        is_checked=True,
    )
    known = names_in_cdk(folder, cluster.region)
    found = {stack: folder / f"{shown.rpartition('/')[2]}.template.json" for stack, shown in known.items()}
    return {
        stack: json.loads(file.read_text(encoding="utf-8"))
        for stack, file in found.items()
        if file.is_file() and (stack == cluster.name or stack.startswith(f"{cluster.name}-"))
    }


def carry_out(step: Step, cluster: Cluster, folder: Path) -> None:
    """Run a step's command; it deploys the templates whose price was shown."""
    again = f"slipway up {cluster.name}"
    program, verb, *rest = step.command
    assert program == "cdk", "commands of Slipway's own are called and not run"
    # The folder has all templates but a bakery's.
    is_made = verb == "bootstrap" or rest == [cluster.name]
    app = ("--app", str(folder)) if is_made else ()
    quietly = ("--require-approval", "never", "--concurrency", "4") if verb == "deploy" else ()
    run_cdk(verb, *rest, *quietly, *app, again=again, is_checked=verb == "deploy")
