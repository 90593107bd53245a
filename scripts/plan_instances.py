"""Generate jobs and pools to plan from a seed: python -m scripts.plan_instances KIND JOBS NODES [SEED].

Kinds: mix, jobs like Saturn's; cut, whose best makespan is known; pools, of three different types; gangs,
with jobs that may take several nodes. It writes the JSON that `slipway plan make` reads. To add a kind, add a
row to KINDS.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from slipway.jobs.plan.search.model import Mode, PlanJob, Pool

DEVICES = 8  # of a node
KNOWN_OPTIMUM = 100_000
SHORTEST = 2_000  # seconds of the shortest piece of `cut`
GANG_SHARE = 0.4
GANG_NODES = (2, 4)

Instance = tuple[list[PlanJob], list[Pool]]

# The least and most hours on one device, and for each technique the fewest devices on which it runs and how
# much slower a device is with it.
FAMILIES: Mapping[str, tuple[tuple[float, float], tuple[tuple[str, int, float], ...]]] = {
    "gpt2": ((2, 15), (("ddp", 1, 1.0),)),
    "vitg": ((3, 25), (("ddp", 1, 1.0),)),
    "gptj": ((12, 30), (("spill", 1, 1.7), ("fsdp_offload", 2, 1.6), ("gpipe", 3, 1.0), ("fsdp", 4, 1.03))),
    "resnet": ((0.5, 6), (("ddp", 1, 1.0),)),
}
UNLIKE_POOLS = (("p3.16xlarge", 24.48, 1.0), ("p100x8", 11.68, 1.8), ("p2.8xlarge", 7.2, 6.0))


def make_instance(kind: str, jobs: int, nodes: int, seed: int = 0) -> Instance:
    dice = random.Random(f"{kind} {jobs} {nodes} {seed}")  # noqa: S311 - no secret
    return KINDS[kind](dice, jobs, nodes)


def _mix(dice: random.Random, jobs: int, nodes: int) -> Instance:
    return list(_mixed_jobs(dice, jobs)), [_pool("p4d", nodes, 32.77)]


def _mixed_jobs(dice: random.Random, jobs: int) -> Iterator[PlanJob]:
    for place in range(jobs):
        family = dice.choice(sorted(FAMILIES))
        (least, most), techniques = FAMILIES[family]
        work = dice.uniform(least, most) * 3600
        modes = tuple(_mode(dice, "p4d", work, techniques, devices) for devices in range(1, DEVICES + 1))
        yield PlanJob(name=f"{family}-{place:04}", modes=modes)


def _mode(
    dice: random.Random, type_: str, work: float, techniques: tuple[tuple[str, int, float], ...], devices: int
) -> Mode:
    """Return the quickest technique on this many devices; each further device is used a little less."""
    technique, _, slower = min((each for each in techniques if each[1] <= devices), key=lambda each: each[2])
    seconds = work * slower * (1 + 0.08 * math.log2(devices)) * dice.uniform(0.96, 1.04) / devices
    return Mode(technique=technique, type=type_, devices=devices, seconds=round(seconds))


def _cut(dice: random.Random, jobs: int, nodes: int) -> Instance:
    """Cut each node's devices and time into pieces, one per job, which together fill it."""
    pieces = [(-DEVICES * KNOWN_OPTIMUM, node, DEVICES, KNOWN_OPTIMUM) for node in range(nodes)]
    whole: list[tuple[int, int]] = []
    count = nodes
    while len(pieces) + len(whole) < jobs:
        _, _, devices, seconds = heapq.heappop(pieces)
        halves = _halves(dice, devices, seconds)
        if not halves:
            whole.append((devices, seconds))
            continue
        for width, length in halves:
            count += 1
            heapq.heappush(pieces, (-round(width * length * dice.uniform(0.3, 1)), count, width, length))
    cut = whole + [(devices, seconds) for _, _, devices, seconds in pieces]
    made = [
        _job(place, (_other(dice, *piece, count) for count in range(1, DEVICES + 1)))
        for place, piece in enumerate(cut)
    ]
    dice.shuffle(made)
    return made, [_pool("p4d", nodes, 32.77)]


def _halves(dice: random.Random, devices: int, seconds: int) -> list[tuple[int, int]]:
    along_time = seconds >= 2 * SHORTEST and (devices == 1 or dice.random() < 0.6)
    if along_time:
        first = dice.randint(SHORTEST, seconds - SHORTEST)
        return [(devices, first), (devices, seconds - first)]
    if devices == 1:
        return []
    width = dice.randint(1, devices - 1)
    return [(width, seconds), (devices - width, seconds)]


def _other(dice: random.Random, devices: int, seconds: int, count: int) -> Mode:
    """Return the piece itself, or a mode on more or fewer devices that takes more device-seconds."""
    slower = 1.0 if count == devices else dice.uniform(1.02, 1.5)
    technique = "ddp" if count == 1 else "fsdp"
    took = math.ceil(seconds * devices / count * slower)
    return Mode(technique=technique, type="p4d", devices=count, seconds=took)


def _pools(dice: random.Random, jobs: int, nodes: int) -> Instance:
    """Split the nodes 1:2:4 over three types, each slower than the last by a factor that varies by job."""
    pools = [
        _pool(type_, max(1, nodes * share // 7), price)
        for (type_, price, _), share in zip(UNLIKE_POOLS, (1, 2, 4), strict=True)
    ]
    made = []
    for place in range(jobs):
        work = dice.uniform(1, 20) * 3600
        modes = (
            _mode(dice, type_, work * slower * spread, (("ddp", 1, 1.0),), devices)
            for type_, _, slower in UNLIKE_POOLS
            for spread in [dice.uniform(0.6, 1.5)]
            for devices in (1, 2, 4, 8)
        )
        made.append(_job(place, modes))
    return made, pools


def _gangs(dice: random.Random, jobs: int, nodes: int) -> Instance:
    """Let some jobs, four times as long as the others, also take several whole nodes."""
    made = list(_mixed_jobs(dice, jobs))
    for place, job in enumerate(made):
        if dice.random() < GANG_SHARE:
            modes = [replace(mode, seconds=mode.seconds * 4) for mode in job.modes]
            longest = modes[-1]
            for count in (each for each in GANG_NODES if each <= nodes):
                seconds = round(longest.seconds / count * dice.uniform(1.03, 1.15))
                modes.append(replace(longest, devices=count * DEVICES, seconds=seconds))
            made[place] = replace(job, modes=tuple(modes))
    return made, [_pool("p4d", nodes, 32.77)]


def _job(place: int, modes: Iterable[Mode]) -> PlanJob:
    return PlanJob(name=f"job-{place:04}", modes=tuple(modes))


def _pool(type_: str, nodes: int, price: float) -> Pool:
    return Pool(type=type_, nodes=nodes, devices_per_node=DEVICES, price_per_hour=price)


KINDS: Mapping[str, Callable[[random.Random, int, int], Instance]] = {
    "mix": _mix,
    "cut": _cut,
    "pools": _pools,
    "gangs": _gangs,
}


# What `slipway plan make` reads of each; all else has its default.
WRITTEN: Mapping[type, Sequence[str]] = {
    PlanJob: ("name", "modes"),
    Mode: ("technique", "type", "devices", "seconds"),
    Pool: ("type", "nodes", "devices_per_node", "price_per_hour"),
}


def written(each: PlanJob | Mode | Pool) -> dict[str, object]:
    return {name: getattr(each, name) for name in WRITTEN[type(each)]}


if __name__ == "__main__":
    kind, jobs, nodes, *seed = sys.argv[1:]
    made, pools = make_instance(kind, int(jobs), int(nodes), *map(int, seed))
    json.dump({"pools": pools, "jobs": made}, sys.stdout, default=written)
