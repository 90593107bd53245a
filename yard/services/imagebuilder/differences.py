"""What a bake in the yard leaves out of EC2 Image Builder. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines import image_store
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder.components.document import ONLY_ON_AWS
from slipway.yard.services.imagebuilder.machine import base

LEFT_OUT = (
    "the parent image: a recipe's own is not fetched, whichever it names",
    "the machine: no kernel boots, no systemd runs (units are enabled and not started), nothing is rebooted",
    f"steps whose name ends in {' or '.join(ONLY_ON_AWS)}: the log of the bake names each",
    "the network: a step has this machine's, with its name servers, certificates, proxies and pip settings",
    "the disk: a step that asks for its data to be on it (fsync) is told so at once, and does not wait",
    "security groups, subnets and roles of the build instance: only its instance profile has to be there",
    "components of AWS's own, container recipes, workflows of your own, image scanning and schedules",
    "conditions (`if`) and assertions in components: a document with one is refused when it is created",
    "parallel bakes: one at a time",
)


def described() -> list[str]:
    stand_in = f"a root file system of {base.name()}, kept in {base.cache()}"
    return [
        f"the instance that is baked: {stand_in}; {best_tier().words.partition(':')[0]}",
        f"baked images: {image_store.folder()}",
        *(f"left out: {each}" for each in LEFT_OUT),
    ]
