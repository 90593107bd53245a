"""The parent of a machine image as it is built: of the release that the lock pins, where it pins one."""

from __future__ import annotations

from slipway.infra.declare.installed import CONTAINERS
from slipway.infra.declare.machine_images import MachineImage
from slipway.jobs.words.images.ami_locks import lock_problems, locked_parent, machine_image_names, pinned


def pinned_parent(image: MachineImage) -> str:
    """Return the parent that bakes begin with. An unsound lock pins nothing, and is told of elsewhere."""
    if image.name not in machine_image_names(CONTAINERS) or lock_problems(CONTAINERS, image.name):
        return image.parent
    found = locked_parent(CONTAINERS, image.name)
    return pinned(image.parent, found.serial if found else None)
