"""Chooses how the tables of knapsacks are filled: by compiled code where numba is installed.

Both ways make the same sums in the same order, so that a plan does not depend on it.
"""

from __future__ import annotations

from importlib.util import find_spec

from slipway.jobs.plan.search.knapsack import plain
from slipway.jobs.plan.search.knapsack.plain import Filling


def _fastest() -> Filling:
    if find_spec("numba") is None:
        return plain.fill
    from slipway.jobs.plan.search.knapsack import compiled

    return compiled.fill


fill: Filling = _fastest()
