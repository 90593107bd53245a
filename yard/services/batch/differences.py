"""What running a job in the yard leaves out of AWS Batch. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines import storage
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import best_tier

LEFT_OUT = (
    "the image: `python` is this machine's interpreter and the code is this checkout",
    "devices, EFA, GPUs and their drivers: none of linuxParameters.devices is there, and none is counted",
    "limits: vCPUs and memory are counted before a job starts and not enforced, nor are ulimits",
    "instances: none are started, so nodes come within a second, and never in the wrong zone",
    "roles, secrets and users: every node acts with a key of its own, and no policy is looked at",
    "file systems: a shared folder each, as fast as this machine; the rest of / is this machine's, writable",
    "security groups: the nodes of an attempt reach each other and the yard, and nothing else",
    "fair-share scheduling, consumable resources and EKS",
)


def described() -> list[str]:
    return [
        f"isolation: {best_tier().words}",
        f"homes: {home.WORDS[best_tier().isolated]}",
        f"the files that nodes share, a folder for each file system: {storage.file_systems()}",
        *(f"left out: {each}" for each in LEFT_OUT),
    ]
