"""Builds the stacks that bake machine images: one network for each region, one bakery for each image.

No cluster's stack depends on them: a cluster needs an image that was baked, not the means to bake another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk

from slipway.infra.declare.machine_images import (
    CONTAINERS,
    PAYLOAD_PARAMETERS,
    MachineImage,
    asked_parameters,
    pinned_parent,
)
from slipway.infra.patterns.images.image_pipeline import ImageLock
from slipway.infra.patterns.images.payload import payload_of
from slipway.infra.stacks.bakery import BakeryNetworkStack, BakeryStack
from slipway.jobs.words.images.ami_locks import lock_digest, lock_parameters
from slipway.jobs.words.images.amis import bakery_stack_name
from slipway.jobs.words.images.containers import read_lock


def build_bakeries(app: cdk.App, images: Sequence[MachineImage]) -> None:
    networks: dict[str, BakeryNetworkStack] = {}
    for declared in images:
        image = replace(declared, parent=pinned_parent(declared))
        lock = read_lock(CONTAINERS, image.name)
        assert lock is not None, "the gate has looked at the lock"
        if image.region not in networks:
            name = bakery_stack_name(f"network-{image.region}")
            networks[image.region] = BakeryNetworkStack(app, name, image=image)
        asked = {parameter for name in image.components for parameter in asked_parameters(name)}
        BakeryStack(
            app,
            bakery_stack_name(image.name),
            image=image,
            network=networks[image.region].network,
            lock=ImageLock(
                digest=lock_digest(CONTAINERS, image.name),
                versions=lock.host,
                values=lock_parameters(CONTAINERS, image.name),
            ),
            payload=payload_of(image.name) if asked & PAYLOAD_PARAMETERS else None,
        )
