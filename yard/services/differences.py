"""How jobs of AWS Batch, bakes and training jobs differ from AWS's; `slipway yard status` prints it.

Differences of AWS PCS are in pcs/differences.py, those of single calls in pretending.py.
"""

from __future__ import annotations

from slipway.yard.machines import image_store, storage
from slipway.yard.machines.isolation import home
from slipway.yard.machines.isolation.tiers import best_tier
from slipway.yard.services.imagebuilder.components.document import ONLY_ON_AWS
from slipway.yard.services.imagebuilder.machine import base

OF_BATCH = (
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


def batch_jobs() -> list[str]:
    return [
        f"isolation: {best_tier().words}",
        f"homes: {home.WORDS[best_tier().isolated]}",
        f"shared file systems (one folder each): {storage.file_systems()}",
        *(f"left out: {what}" for what in OF_BATCH),
    ]


OF_BAKES = (
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


def bakes() -> list[str]:
    stand_in = f"a root file system of {base.name()}, kept in {base.cache()}"
    return [
        f"the build instance: {stand_in}; {best_tier().words.partition(':')[0]}",
        f"baked AMIs: {image_store.folder()}",
        *(f"left out: {what}" for what in OF_BAKES),
    ]


OF_TRAINING = (
    "the training image: AWS's training toolkit and `python` are this machine's, for every PyTorch image",
    "GPUs and EFA; volumes, of which neither size nor encryption is held",
    "channels: FastFile is copied as File is, and a file system is a folder of this machine",
    "MPI over several instances, the debugger, the profiler and remote debugging",
    "instance quotas, but those of a few types, and those that `slipway yard grant-quota` has set by names",
    "metrics: FinalMetricDataList has the last value of each; CloudWatch gets none",
    "warm pools: a job's instances are shown as kept, and no later job takes them over",
    "a Spot job's billable seconds, which AWS counts at the Spot price, are those of its instances",
)


def training_jobs() -> list[str]:
    tier = best_tier()
    if not tier.isolated:
        return [f"no training job runs here, for no instance can have a /opt/ml of its own: {tier.words}"]
    return [f"isolation: {tier.words}", *(f"left out: {what}" for what in OF_TRAINING)]
