"""Loads the declared clusters and machine images: the user's own entries, with overrides, all checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from slipway.infra.declare.checks.machine_images import machine_image_problems
from slipway.infra.declare.checks.values import shown
from slipway.infra.declare.machine_images import MachineImage
from slipway.infra.declare.node_images import ami_parameter_of, booted_image
from slipway.infra.declare.overrides import apply
from slipway.infra.declare.project_file import run_declarations
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.errors import InvalidConfig, Problem, SlipwayError, did_you_mean
from slipway.jobs.words.images.amis import ami_parameter
from slipway.jobs.words.installation import DECLARATIONS, find_project, refuse_incomplete

Entry = TypeVar("Entry", Cluster, MachineImage)

# The machine images of the file as load() last read it, so that both are of one reading.
_LOADED: dict[Path, tuple[MachineImage, ...]] = {}


def load(context: Mapping[str, object]) -> tuple[Cluster, ...]:
    """Return the clusters of clusters.py with the context's overrides, all of them checked."""
    refuse_incomplete()
    project = find_project()
    module = run_declarations(project)
    clusters, images = _entries(module, "CLUSTERS", Cluster), None
    if hasattr(module, "MACHINE_IMAGES"):
        images = _entries(module, "MACHINE_IMAGES", MachineImage)
    wrong = machine_image_problems(images or ())
    try:
        found = apply(context, clusters)
    except InvalidConfig as error:
        raise InvalidConfig([*error.problems, *wrong]) from None
    if images is None:  # of clusters that are right
        images = _images_of(clusters)
        wrong = machine_image_problems(images)
    if wrong:
        raise InvalidConfig(wrong)
    _LOADED[project.declarations] = images
    return found


def load_machine_images() -> tuple[MachineImage, ...]:
    """Return the machine images of clusters.py, which load() has checked."""
    declarations = find_project().declarations
    if declarations not in _LOADED:
        load({})
    return _LOADED[declarations]


def declared_clusters(overrides: Sequence[str] = ()) -> tuple[Cluster, ...]:
    """Return the clusters; `overrides` are written as for the CDK: dl1.max_nodes=4."""
    given: dict[str, list[str]] = {}
    if bare := [override for override in overrides if "=" not in override]:
        hint = "has no '='; write -c dl1.max_nodes=4"
        raise InvalidConfig([Problem(where="-c", message=f"{shown(word)} {hint}") for word in bare])
    for override in overrides:
        name, _, value = override.partition("=")
        given.setdefault(name, []).append(value)
    repeated = {name: values for name, values in given.items() if len(values) > 1}
    if repeated:
        raise InvalidConfig(
            [
                Problem(
                    where=f"-c {name}",
                    message=f"is given {len(values)} times: {', '.join(values)}",
                    hint="say it once",
                )
                for name, values in repeated.items()
            ]
        )
    return load({name: values[0] for name, values in given.items()})


def declared_cluster(name: str, overrides: Sequence[str] = ()) -> Cluster:
    return _named(name, declared_clusters(overrides), "cluster")


def declared_machine_image(name: str) -> MachineImage:
    return _named(name, declared_machine_images(), "machine image")


def declared_machine_images() -> tuple[MachineImage, ...]:
    load({})
    return load_machine_images()


def build_type(cluster: Cluster) -> str | None:
    """Return the instance type that the cluster's AMI is baked on, or None if it is not baked here."""
    if not isinstance(cluster, NodeCluster):
        return None
    built_on = {ami_parameter(image.name): image.instance_type for image in load_machine_images()}
    return built_on.get(ami_parameter_of(cluster))


def _named(name: str, entries: Sequence[Entry], noun: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    names = [entry.name for entry in entries]
    raise SlipwayError(
        f"no {noun} '{name}' is declared",
        hint=did_you_mean(name, names, otherwise=f"declared are {', '.join(names) or 'none'}"),
    )


def _entries(module: ModuleType, name: str, kind: type[Entry]) -> tuple[Entry, ...]:
    """Return what the module declares by this name, which must be a tuple or list of such entries."""
    declared = getattr(module, name, None)
    hint = f"write {name} = ({'BatchCluster' if name == 'CLUSTERS' else kind.__name__}(…),)"
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
    """Return those of our machine images that are the clusters' AMIs, or their parents.

    Each is baked in the region of its first cluster.
    """
    from slipway.infra.clusters import MACHINE_IMAGES

    nodes = [cluster for cluster in reversed(clusters) if isinstance(cluster, NodeCluster)]
    users = {booted_image(cluster): cluster for cluster in nodes}
    wanted = ((image, users.get(image.name)) for image in MACHINE_IMAGES)
    return tuple(
        replace(image, region=user.region, zone=user.zone, account=user.account)
        for image, user in wanted
        if user is not None
    )
