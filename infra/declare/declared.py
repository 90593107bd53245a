"""The declared clusters and machine images as JSON, for those who may not import infra.

`python -m slipway.infra.declare` prints them; exit code 2 and the problems in place of
them where the declarations are wrong.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slipway.infra.declare.checks.field_types import field_types
from slipway.infra.declare.checks.machine_images import machine_image_problems
from slipway.infra.declare.checks.values import nearest
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.overrides import apply
from slipway.infra.declare.types import Cluster
from slipway.jobs.core.errors import InvalidConfig, Problem
from slipway.jobs.core.images.amis import ami_parameter


def load(context: Mapping[str, object]) -> tuple[Cluster, ...]:
    """Return the clusters of clusters.py with the context's overrides, all of them checked."""
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
    try:
        from slipway.infra.clusters import CLUSTERS, MACHINE_IMAGES
    except TypeError as error:
        raise InvalidConfig([_misspelt(str(error))]) from error
    return CLUSTERS, MACHINE_IMAGES


def _misspelt(message: str) -> Problem:
    """Turn Python's TypeError for an unknown or missing setting into a problem."""
    entry, _, said = message.partition(".__init__() ")
    kinds: tuple[type[Any], ...] = (*_kinds(Cluster), MachineImage)
    kind = next((each for each in kinds if each.__name__ == entry), Cluster)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", said)
    hint = nearest(unknown[1], tuple(field_types(kind))) if unknown else "add it to the entry"
    said = f"'{unknown[1]}' is not a setting" if unknown else said or message
    return Problem(where="infra/clusters.py", message=said, hint=hint)


def _kinds(base: type[Cluster]) -> Iterator[type[Cluster]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)
