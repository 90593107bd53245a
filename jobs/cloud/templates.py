"""Reads the templates of a cluster: the deployed ones, or those that infra makes in a separate process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slipway.infra.declare.node_images import ami_parameter_of
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, reader
from slipway.jobs.words.errors import SlipwayError
from slipway.jobs.words.images.amis import bakery_stack_name, image_of
from slipway.jobs.words.installation import find_project, refuse_without
from slipway.jobs.words.names import PARTS, stack_name

_TIMEOUT_SECONDS = 300

Templates = Mapping[str, Mapping[str, Any]]  # by stack name


def stack_names(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of a cluster's stacks and of those that bake its AMI."""
    own = (stack_name(cluster.name), *(stack_name(cluster.name, part) for part in sorted(PARTS)))
    image = image_of(ami_parameter_of(cluster)) if isinstance(cluster, NodeCluster) else None
    bakery = (bakery_stack_name(image), bakery_stack_name(f"network-{cluster.region}")) if image else ()
    return (*own, *bakery)


def deployed_templates(names: Iterable[str], region: str) -> Templates | Unanswered:
    """Return the templates of those of the named stacks that exist."""
    cloudformation = reader("cloudformation", region)
    stacks = ask_all(cloudformation, "DescribeStacks", "Stacks")
    if isinstance(stacks, Unanswered):
        return stacks
    # Stacks of the other two states have no resources.
    existing = {
        stack["StackName"]
        for stack in stacks
        if stack["StackStatus"] not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")
    }
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        if name in existing:
            answer = ask(cloudformation, "GetTemplate", StackName=name, TemplateStage="Original")
            if isinstance(answer, Unanswered):
                return answer
            body = answer["TemplateBody"]
            found[name] = json.loads(body) if isinstance(body, str) else body
    return found


def declared_templates(cluster: str, folder: Path | None = None) -> Templates:
    """Return what a deployment would create now; infra makes it for the folder's project, or for this one."""
    refuse_without("infra", f"making the templates of {cluster}")
    node = os.environ.get("JSII_NODE", "node")  # as the CDK's library looks for it
    if shutil.which(node) is None:
        raise SlipwayError(
            f"making the templates of {cluster} needs Node.js, and '{node}' is not on PATH",
            hint="install Node.js 22 or newer: https://nodejs.org",
        )
    project = find_project(folder)
    # A checkout runs its own infra. Elsewhere, no folder or module of the user's may shadow ours.
    python = [sys.executable, *([] if project.is_checkout else ["-P"])]
    ran = subprocess.run(
        [*python, "-m", "slipway.infra.templates", cluster],
        cwd=project.folder,
        env={**os.environ, "CDK_VALIDATION": "false"},  # takes seconds, and `cdk deploy` validates
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise SlipwayError(
            f"the templates of {cluster} cannot be made: {last}",
            hint=f"run `python -m slipway.infra.templates {cluster}` in {project.folder} to see why",
        )
    templates: Templates = json.loads(ran.stdout)
    return templates


# Reads in the output of `cdk synth` what the CDK calls each stack, by the stack's name in AWS.


def names_in_cdk(folder: Path, region: str) -> dict[str, str]:
    """Return the CDK's name of each stack of a region, by its name in AWS: STAGE/NAME if it is in a Stage."""
    return dict(_named(folder, region))


def _named(folder: Path, region: str) -> Iterator[tuple[str, str]]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for artifact, described in manifest.get("artifacts", {}).items():
        properties = described.get("properties", {})
        if described["type"] == "cdk:cloud-assembly":  # a Stage
            yield from _named(folder / properties["directoryName"], region)
        elif described["type"] != "aws:cloudformation:stack":
            continue
        elif described["environment"].endswith(f"/{region}"):
            yield properties.get("stackName", artifact), described.get("displayName", artifact)
