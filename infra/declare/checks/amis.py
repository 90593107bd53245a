"""Whose AMI nodes boot: one that Slipway bakes, or one that says which of those it was made from.

User data writes one file; what joins a cluster, ends a lost node and runs around jobs is in baked AMIs alone.
Nodes of any other AMI are billed until somebody sees them.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.infra.declare.checks.nodes import (
    baked_settings,
    booted_image,
    changed,
    fitting_images,
    known_images,
    own_settings,
)
from slipway.infra.declare.checks.values import nearest, shown
from slipway.infra.declare.types import Cluster, NodeCluster
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.errors import Problem
from slipway.jobs.words.images.amis import image_of

_OF_AWS = "/aws/"  # how the names of AWS's own parameters begin


def ami_with_slipways_boot(cluster: Cluster) -> Iterator[Problem]:
    """Check that the settings of the AMI name a machine image of ours, and the same one."""
    assert isinstance(cluster, NodeCluster)
    images = fitting_images(type(cluster), instance_type(cluster.instance_type))
    declared = getattr(cluster, "machine_image", None)
    if not images or declared not in (None, *known_images()):
        return  # another rule refuses the type, or the name
    image = declared if declared in images else images[0]
    for wrong in (_claim_without_effect, _no_boot, _unknown_claim, _another_image):
        if problem := wrong(cluster, image):
            yield problem
            return


def _claim_without_effect(cluster: NodeCluster, image: str) -> Problem | None:
    named = image_of(cluster.ami_parameter)
    if named not in known_images() or not (cluster.ami_made_from or cluster.ami_adds):
        return None
    own = changed(cluster, own_settings(type(cluster), image))
    return Problem(
        where="ami_made_from" if cluster.ami_made_from else "ami_adds",
        message=f"has no effect: {cluster.ami_parameter} names {named} as Slipway bakes it",
        hint=f"use {changed(cluster, baked_settings(type(cluster), image))}, or "
        f"{own and f'{own} and '}the ami_parameter of your own AMI",
    )


def _no_boot(cluster: NodeCluster, image: str) -> Problem | None:
    is_of_aws = cluster.ami_parameter.startswith(_OF_AWS)
    is_ours = image_of(cluster.ami_parameter) in known_images()
    if is_ours or (cluster.ami_made_from and not is_of_aws):
        return None
    claim = f", or {changed(cluster, own_settings(type(cluster), image))} if you made this AMI from Slipway's"
    return Problem(
        where="ami_parameter",
        message=f"is {cluster.ami_parameter}, an AMI without Slipway's boot: its nodes join nothing, and no "
        "watchdog ends them",
        hint=f"use {changed(cluster, baked_settings(type(cluster), image))}{'' if is_of_aws else claim}",
    )


def _unknown_claim(cluster: NodeCluster, _image: str) -> Problem | None:
    known, made_from = known_images(), cluster.ami_made_from
    if made_from is None or made_from in known:
        return None
    message = f"is {shown(made_from)}, which is no machine image of Slipway's"
    return Problem(where="ami_made_from", message=message, hint=nearest(made_from, known))


def _another_image(cluster: NodeCluster, image: str) -> Problem | None:
    declared, where = getattr(cluster, "machine_image", None), "ami_parameter"
    settings = baked_settings(type(cluster), image)
    if declared in (None, booted_image(cluster)):
        return None
    if cluster.ami_made_from:
        where, settings = "ami_made_from", own_settings(type(cluster), image)
    return Problem(
        where=where,
        message=f"is {getattr(cluster, where)}, but machine_image is {declared}",
        hint=f"use {changed(cluster, settings)}",
    )
