"""The tiers as parameters: the best one on this machine, and with `scripts/test --all` the others."""

from __future__ import annotations

import os

import pytest

from slipway.yard.machines.isolation.tiers import TIERS

DAILY = "root" if os.geteuid() == 0 else "user"
EVERY_TIER = [pytest.param(tier.name, marks=() if tier.name == DAILY else pytest.mark.long) for tier in TIERS]
ISOLATED_TIERS = [each for each, tier in zip(EVERY_TIER, TIERS, strict=True) if tier.isolated]
