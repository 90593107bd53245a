"""How a bake in the yard differs from EC2 Image Builder. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines import image_store
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder.components.document import ONLY_ON_AWS
from slipway.yard.services.imagebuilder.machine import base

LEFT_OUT = (
    "the parent image: the one that a recipe names is never fetched",
    "the machine: no kernel boots, no systemd runs (units are enabled but not started), nothing reboots",
    f"steps whose name ends in {' or '.join(ONLY_ON_AWS)}: the log of the bake names each",
    "the network: a step uses this machine's, with its name servers, certificates, proxies and pip settings",
    "the disk: fsync returns at once, without waiting for the disk",
    "security groups, subnets and roles of the build instance: only its instance profile must exist",
    "components that AWS owns, container recipes, custom workflows, image scanning and schedules",
    "conditions (`if`) and assertions in components: a document with one is refused on creation",
    "parallel bakes: bakes run one at a time",
)


def described() -> list[str]:
    stand_in = f"a root file system of {base.name()}, kept in {base.cache()}"
    return [
        f"the build instance: {stand_in}; {best_tier().words.partition(':')[0]}",
        f"baked AMIs: {image_store.folder()}",
        *(f"left out: {each}" for each in LEFT_OUT),
    ]
