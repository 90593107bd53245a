"""Checks all declared machine images, their locks and components, and reports every problem at once.

A new rule is one function and one row of RULES, with the settings that it reads; as with clusters, it runs
only if those are valid by themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from slipway.infra.declare.checks.clusters import problems_in
from slipway.infra.declare.checks.values import nearest, shown
from slipway.infra.declare.machine_images import (
    CONTAINERS,
    PAYLOAD_PARAMETERS,
    MachineImage,
    asked_parameters,
    component_names,
    pinned_parent,
)
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.ami_locks import lock_parameters, lock_problems, machine_image_names, moves
from slipway.jobs.words.images.containers import apart, read_lock, unsupported

Rule = Callable[[MachineImage], Iterator[Problem]]


def machine_image_problems(images: Sequence[MachineImage]) -> tuple[Problem, ...]:
    for remembered in (_known, _lock_problems):  # rules of one reading ask the same again
        remembered.cache_clear()
    found = []
    for image in images:
        for problem in problems_in(image, MachineImage, RULES):
            of_a_file = problem.where.startswith(("containers/", "infra/"))
            where = problem.where if of_a_file else f"machine image {shown(image.name)}: {problem.where}"
            found.append(replace(problem, where=where))
    for name, count in Counter(str(image.name) for image in images).items():
        if count > 1:
            message = f"is the name of {count} machine images; their names must be unique"
            found.append(Problem(where=f"machine image {shown(name)}", message=message, hint="rename one"))
    first: dict[str, MachineImage] = {}
    for image in images:  # those of a region share a network
        other = first.setdefault(str(image.region), image)
        if (other.zone, other.account) != (image.zone, image.account):
            where = f"machine image {shown(image.name)}: zone"
            message = f"is built in the network of {shown(other.name)}, which is in {shown(other.zone)}"
            hint = "give all machine images of a region one zone and one account"
            found.append(Problem(where=where, message=message, hint=hint))
    return tuple(found)


@lru_cache(maxsize=1)
def _known() -> tuple[str, ...]:
    return machine_image_names(CONTAINERS)


@lru_cache(maxsize=64)
def _lock_problems(name: str) -> tuple[Problem, ...]:
    return lock_problems(CONTAINERS, name)


def lock_of_this_checkout(image: MachineImage) -> Iterator[Problem]:
    known = _known()
    if image.name not in known:
        message = (
            f"is {shown(image.name)}, which is not a folder of containers/images with a lock and no "
            "Dockerfile"
        )
        yield Problem(where="name", message=message, hint=nearest(image.name, known))
        return
    yield from _lock_problems(image.name)


def versions_that_work(image: MachineImage) -> Iterator[Problem]:
    if image.name not in _known() or _lock_problems(image.name):
        return
    lock, accelerator = read_lock(CONTAINERS, image.name), instance_type(image.runs_on).accelerator
    assert lock is not None, "a machine image has a lock"
    said = (*apart(lock), *(unsupported(accelerator.name, lock) if accelerator else ()))
    for message in said:
        yield Problem(
            where=f"containers/images/{image.name}/lock.toml", message=message, hint="lock versions that fit"
        )


def components_that_fit(image: MachineImage) -> Iterator[Problem]:
    """Check that components exist and get every value that they need, and that every lock is used."""
    known = component_names()
    for name, count in Counter(image.components).items():
        if name not in known:
            message = f"has {shown(name)}, which is not a file of infra/components"
            yield Problem(where="components", message=message, hint=nearest(name, known))
        elif count > 1:
            yield Problem(where="components", message=f"has {name} {count} times", hint="each runs once")
    if image.name not in _known() or _lock_problems(image.name):
        return
    where = f"containers/images/{image.name}/lock.toml"
    locked = set(lock_parameters(CONTAINERS, image.name))
    names = [name for name in dict.fromkeys(image.components) if name in known]
    asked = {parameter: name for name in names for parameter in asked_parameters(name)}
    for parameter in sorted(asked.keys() - locked - PAYLOAD_PARAMETERS):
        message = f"has no value for {parameter}, which infra/components/{asked[parameter]}.yaml asks for"
        yield Problem(where=where, message=message, hint="write it under the path that the name says")
    for parameter in sorted(locked - asked.keys()):
        message = f"locks {parameter}, but no component of {image.name} asks for it"
        yield Problem(where=where, message=message, hint="take it out, or add the component that installs it")


def zone_of_region(image: MachineImage) -> Iterator[Problem]:
    if not re.fullmatch(rf"{re.escape(image.region)}[a-z]", image.zone):
        message = f"is {shown(image.zone)}, not an Availability Zone of {image.region}"
        hint = f"write {image.region} and one letter, such as {image.region}a"
        yield Problem(where="zone", message=message, hint=hint)


def one_architecture(image: MachineImage) -> Iterator[Problem]:
    built, runs = instance_type(image.instance_type), instance_type(image.runs_on)
    if built.architecture != runs.architecture:
        message = f"is {built.name} ({built.architecture}), but {runs.name} is {runs.architecture}"
        yield Problem(
            where="instance_type", message=message, hint="build on the architecture that it runs on"
        )


def parent_that_stays(image: MachineImage) -> Iterator[Problem]:
    """Check that the parent does not change: two bakes of one lock must begin with the same AMI."""
    moving = moves(pinned_parent(image))
    if moving and not (image.parent_moves_because or "").strip():
        yield Problem(
            where="parent",
            message=f"is {image.parent}, whose value changes with every release",
            hint=f"slipway image pin {image.name}, or name an AMI id, or say why in parent_moves_because",
        )
    if not moves(image.parent) and image.parent_moves_because is not None:
        message = "says why the parent may move, but this parent does not move"
        yield Problem(where="parent_moves_because", message=message, hint="leave it out")


# The settings that each rule reads.
RULES: Mapping[Rule, tuple[str, ...]] = {
    lock_of_this_checkout: ("name",),
    versions_that_work: ("name", "runs_on"),
    components_that_fit: ("name", "components"),
    zone_of_region: ("zone", "region"),
    one_architecture: ("instance_type", "runs_on"),
    parent_that_stays: ("parent", "parent_moves_because"),
}
