"""The declared clusters and machine images as JSON, for those who may not import infra.

`python -m slipway.infra.declare` prints them; exit code 2 and the problems in place of
them where the declarations are wrong.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any, TypeVar

from slipway.infra.declare.checks.machine_images import machine_image_problems
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.overrides import apply
from slipway.infra.declare.project_file import misspelt, run_declarations
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.errors import InvalidConfig, Problem
from slipway.jobs.words.images.amis import ami_parameter, image_of
from slipway.jobs.words.installation import DECLARATIONS, find_project, refuse_incomplete

Entry = TypeVar("Entry", Cluster, MachineImage)


def load(context: Mapping[str, object]) -> tuple[Cluster, ...]:
    """Return the clusters of clusters.py with the context's overrides, all of them checked."""
    refuse_incomplete()
    clusters, images = _declared()
    wrong = machine_image_problems(images)
    try:
        found = apply(context, clusters)
    except InvalidConfig as error:
        raise InvalidConfig([*error.problems, *wrong]) from None
    if wrong:
        raise InvalidConfig(wrong)
    return found


def load_machine_images() -> tuple[MachineImage, ...]:
    """Return the machine images of clusters.py, which load() has checked."""
    return _declared()[1]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m slipway.infra.declare", description=__doc__)
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
    context = dict(text.partition("=")[::2] for text in parser.parse_args(arguments).context)
    try:
        clusters = load(context)
    except InvalidConfig as error:
        print(json.dumps({"problems": [asdict(problem) for problem in error.problems]}, indent=2))
        return error.exit_code
    found = {
        "clusters": [_described(cluster) for cluster in clusters],
        "machine_images": [asdict(image) for image in load_machine_images()],
    }
    print(json.dumps(found, indent=2))
    return 0


def _described(cluster: Cluster) -> dict[str, Any]:
    """Describe a cluster with the instance type that its AMI is baked on, where it is baked here."""
    built_on = {ami_parameter(image.name): image.instance_type for image in load_machine_images()}
    parameter = getattr(cluster, "ami_parameter", "")
    return {"kind": cluster.kind, **asdict(cluster), "build_type": built_on.get(parameter)}


def _declared() -> tuple[tuple[Cluster, ...], tuple[MachineImage, ...]]:
    project = find_project()
    try:
        module = _own() if project.is_checkout else run_declarations(project.declarations)
        clusters = _entries(module, "CLUSTERS", Cluster)
    except TypeError as error:
        raise InvalidConfig([misspelt(str(error), DECLARATIONS)]) from error
    if hasattr(module, "MACHINE_IMAGES"):
        return clusters, _entries(module, "MACHINE_IMAGES", MachineImage)
    return clusters, _images_of(clusters)


def _own() -> ModuleType:
    from slipway.infra import clusters

    return clusters


def _entries(module: ModuleType, name: str, kind: type[Entry]) -> tuple[Entry, ...]:
    """Return what the module declares by this name, which must be a tuple or list of such entries."""
    declared = getattr(module, name, None)
    hint = f"write {name} = ({kind.__name__}(…),)"
    if declared is None:
        raise InvalidConfig([Problem(where=DECLARATIONS, message=f"declares no {name}", hint=hint)])
    entries = declared if isinstance(declared, tuple | list) else (declared,)
    stranger = next((entry for entry in entries if not isinstance(entry, kind)), None)
    if entries is declared and stranger is None:
        return tuple(entries)
    found = type(stranger or declared).__name__
    message = f"is or holds a {found}, and not a tuple of {kind.__name__} entries"
    raise InvalidConfig([Problem(where=f"{DECLARATIONS}: {name}", message=message, hint=hint)])


def _images_of(clusters: Sequence[Cluster]) -> tuple[MachineImage, ...]:
    """Return those of our machine images that the clusters' AMIs are, or were made from.

    Each is baked where the first of its clusters is.
    """
    from slipway.infra.clusters import MACHINE_IMAGES

    nodes = [cluster for cluster in reversed(clusters) if isinstance(cluster, NodeCluster)]
    users = {cluster.ami_made_from or image_of(cluster.ami_parameter): cluster for cluster in nodes}
    wanted = ((image, users.get(image.name)) for image in MACHINE_IMAGES)
    return tuple(
        replace(image, region=user.region, zone=user.zone, account=user.account)
        for image, user in wanted
        if user is not None
    )
