"""How a job in the yard differs from one on AWS Batch. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines import storage
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import best_tier

LEFT_OUT = (
    "the container image: `python` is this machine's interpreter, and the code is this checkout",
    "AWS's own AMIs and containers: no user data is run, and no image of AWS's is pulled or has a digest",
    "devices, EFA, GPUs and drivers: linuxParameters.devices are neither there nor counted",
    "health of GPUs: where a job asks for GPUs, programs answer as nvidia-smi and dcgmi would",
    "limits: vCPUs and memory are counted before a job starts, but neither they nor ulimits are enforced",
    "instances: they are records, one for each node, up at once and gone when its job ends; jobs share none",
    "roles, secrets and users: every node has a key of its own, and no policy is checked",
    "file systems: each is a shared folder on this machine; the rest of / is this machine's, writable",
    "security groups: the nodes of an attempt can reach only each other and the yard",
    "fair-share scheduling, consumable resources and EKS",
)


def described() -> list[str]:
    return [
        f"isolation: {best_tier().words}",
        f"homes: {home.WORDS[best_tier().isolated]}",
        f"shared file systems (one folder each): {storage.file_systems()}",
        *(f"left out: {each}" for each in LEFT_OUT),
    ]
