"""Give each job of a solution its devices on the nodes that the solution chose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slipway.jobs.plan.search.list_schedule import Slot
from slipway.jobs.plan.search.model import NodeDevices
from slipway.jobs.plan.search.options import Option, PlanProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Says where a solution runs a job and when, in seconds that were rounded up."""

    option: Option
    start: int
    end: int
    nodes: tuple[int, ...]


def placed(problem: PlanProblem, chosen: Sequence[Chosen], start_of: Callable[[int, int], int]) -> list[Slot]:
    """Place the jobs by their start; each starts at `start_of(when it was to start, when it could)`."""
    rounded = [[[0] * pool.devices_per_node for _ in range(pool.nodes)] for pool in problem.pools]
    free = [[[0] * pool.devices_per_node for _ in range(pool.nodes)] for pool in problem.pools]
    slots: dict[int, Slot] = {}
    for job in sorted(range(len(chosen)), key=lambda job: (chosen[job].start, chosen[job].end)):
        choice, pool = chosen[job], chosen[job].option.pool
        share = choice.option.devices // len(choice.nodes)
        placement = tuple(
            NodeDevices(node=node, devices=_free_by(rounded[pool][node], choice.start, share))
            for node in sorted(choice.nodes)
        )
        taken = [(each.node, device) for each in placement for device in each.devices]
        ready = max((slots[before].end for before in problem.after[job]), default=0)
        start = start_of(choice.start, max([ready, *(free[pool][node][device] for node, device in taken)]))
        slots[job] = Slot(option=choice.option, start=start, placement=placement)
        for node, device in taken:
            rounded[pool][node][device] = choice.end
            free[pool][node][device] = slots[job].end
    return [slots[job] for job in range(len(chosen))]


def _free_by(free: Sequence[int], moment: int, count: int) -> tuple[int, ...]:
    """Choose of the devices that are free by then those that were busy last."""
    fitting = sorted((-since, device) for device, since in enumerate(free) if since <= moment)
    assert len(fitting) >= count, "a solution never uses more devices than a node has"
    return tuple(sorted(device for _, device in fitting[:count]))
