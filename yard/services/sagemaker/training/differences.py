"""How a training job in the yard differs from one on SageMaker. `slipway yard status` prints it."""

from __future__ import annotations

from slipway.yard.machines.isolation.tiers import best_tier

LEFT_OUT = (
    "the training image: AWS's training toolkit and `python` are this machine's, for every PyTorch image",
    "GPUs and EFA; volumes, of which neither size nor encryption is held",
    "channels: FastFile is copied as File is, and a file system is a folder of this machine",
    "MPI over several instances, the debugger, the profiler and remote debugging",
    "instance quotas, but those of a few types, and those that `slipway yard grant-quota` has set by names",
    "metrics: FinalMetricDataList has the last value of each; CloudWatch gets none",
    "warm pools: a job's instances are shown as kept, and no later job takes them over",
    "a Spot job's billable seconds, which AWS counts at the Spot price, are those of its instances",
)


def described() -> list[str]:
    tier = best_tier()
    if not tier.isolated:
        return [f"no training job runs here, for no instance can have a /opt/ml of its own: {tier.words}"]
    return [f"isolation: {tier.words}", *(f"left out: {what}" for what in LEFT_OUT)]
