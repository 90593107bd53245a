"""Rounds the program to whole lanes: fix the best, generate again, and let jobs in as room comes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slipway.jobs.plan.search.lanes.generation import Generation
from slipway.jobs.plan.search.lanes.lane import Floats, Lane
from slipway.jobs.plan.search.lanes.master import Aim

SURE = 0.5  # lanes that the program uses so much are fixed together


@dataclass(slots=True, kw_only=True)
class Dive:
    """Lanes that are fixed so far, and the jobs that wait outside the program."""

    waiting: list[int]
    left: set[int]
    fixed: list[Lane]
    known: list[Lane]


def dive(
    generation: Generation, jobs: Sequence[int], aim: Aim, lanes: Sequence[Lane], chance: random.Random
) -> list[Lane] | None:
    """Put all jobs on whole lanes; None when there is no time left."""
    order = list(jobs)
    chance.shuffle(order)
    size = generation.effort.window
    state = Dive(waiting=order[size:], left=set(order[:size]), fixed=[], known=list(lanes))
    while state.left:
        generation.open(sorted(state.left), share_of(generation, aim, state), state.known)
        if not generation.converge() or not _fix_until_few(generation, state, chance):
            return None
        state.known = generation.master.lanes
        fresh = size - len(state.left)
        state.left.update(state.waiting[:fresh])
        state.waiting = state.waiting[fresh:]
    return state.fixed


def share_of(generation: Generation, aim: Aim, state: Dive) -> Aim:
    """Return which share of the devices the jobs inside may use, by their areas."""
    if not state.waiting:
        share = 1.0
    else:
        least = generation.menu.areas(generation.horizon).min(axis=0)
        inside, outside = (float(least[list(jobs)].sum()) for jobs in (state.left, state.waiting))
        share = inside / (inside + outside)
    used = np.zeros_like(aim.capacity)
    for lane in state.fixed:
        used[generation.menu.pools[lane.kind]] += generation.menu.devices[lane.kind]
    free = np.maximum(aim.capacity - used, 1e-3 * aim.capacity)
    return Aim(
        capacity=free * share,
        reserved=np.minimum(aim.reserved, free * 0.9) * share,
        is_dollars=aim.is_dollars,
        penalty=aim.penalty if aim.is_dollars else float((free * share).sum()),
    )


def _fix_until_few(generation: Generation, state: Dive, chance: random.Random) -> bool:
    few = generation.effort.refill * generation.effort.window if state.waiting else 0
    while len(state.left) > few:
        lanes = _fix(generation, _preferred(generation.shares.lanes, chance))
        state.fixed.extend(lanes)
        state.left.difference_update(job for lane in lanes for job in lane.jobs)
        if not state.left:
            break
        generation.shares = generation.master.solve()
        if not generation.converge(generation.effort.dive_rounds):
            return False
    return True


def _preferred(shares: Floats, chance: random.Random) -> list[tuple[float, int]]:
    used = np.flatnonzero(shares > 1e-6)
    return sorted((-float(shares[lane]) + 0.05 * chance.random(), int(lane)) for lane in used)


def _fix(generation: Generation, preferred: list[tuple[float, int]]) -> list[Lane]:
    """Fix the lanes that are used most, several where the program is sure, and close what they break."""
    limit = max(1, int(generation.alive.sum() * generation.effort.step))
    fixed: list[Lane] = []
    for share, place in preferred:
        if fixed and (-share < SURE or len(fixed) >= limit):
            break
        lane = generation.master.lanes[place]
        rows = np.searchsorted(generation.jobs, lane.jobs)
        if generation.alive[rows].all():
            generation.alive[rows] = False
            generation.master.fix(place)
            fixed.append(lane)
    generation.close_broken(fixed)
    return fixed
