"""Which hosts have namespaces of their own, and which are plain processes of this machine.

Without root a cluster of AWS PCS is plain processes even where namespaces can be made: Slurm's daemons start
jobs as other users, which a namespace of an ordinary user does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.jobs.words import slurm
from slipway.yard.machines.isolation.tiers import TIERS, Tier, best_tier


def tier_of(tags: Mapping[str, str]) -> Tier:
    """Return how a host with these tags is kept apart."""
    best = best_tier()
    if best.name != "root" and slurm.CLUSTER_TAG in tags:
        return next(tier for tier in TIERS if not tier.isolated)
    return best
