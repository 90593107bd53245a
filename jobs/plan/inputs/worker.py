"""Run one search in its own process, which portfolio.py starts by this module's name.

It reads one order from stdin and writes each better plan or bound to stdout. When stdin closes, the
parent has ended, and this process ends, too. To add a search, add a row to SEARCHES or PROOFS.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TypeAlias

from slipway.jobs.plan.inputs.files import Fields
from slipway.jobs.plan.inputs.plan_json import decode_plan, plan_fields
from slipway.jobs.plan.search.list_schedule import Slot, as_plan
from slipway.jobs.plan.search.model import LowerBound, NodeDevices
from slipway.jobs.plan.search.options import PlanProblem, new_problem

# The messages between a search's process and its parent: JSON, one a line. An order is a plan, in the format
# of its file, and what to do with it. Answers name an option by its index among those of its job.
Placed: TypeAlias = list[tuple[int, int, list[tuple[int, list[int]]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOrder:
    """Orders one search, which starts from a first plan."""

    search: str  # a name in worker.SEARCHES
    problem: PlanProblem
    seed: int
    start: Sequence[Slot]
    bound: LowerBound


def encode_order(order: SearchOrder) -> str:
    plan = as_plan(order.problem, order.start, order.bound)
    return json.dumps({"search": order.search, "seed": order.seed, **plan_fields(plan)})


def decode_order(line: str) -> SearchOrder:
    said = json.loads(line)
    plan = decode_plan(Fields(where="", values=said), "")
    problem = new_problem(plan.jobs, plan.pools, plan.goal)
    return SearchOrder(
        search=said["search"],
        problem=problem,
        seed=said["seed"],
        start=[
            Slot(
                option=next(o for o in options if (o.mode, o.pool) == (each.mode, each.pool)),
                start=each.start,
                placement=each.placement,
            )
            for options, each in zip(problem.options, plan.assignments, strict=True)
        ],
        bound=plan.bound,
    )


def encode_slots(problem: PlanProblem, slots: Sequence[Slot]) -> Placed:
    return [
        (
            options.index(slot.option),
            slot.start,
            [(share.node, list(share.devices)) for share in slot.placement],
        )
        for options, slot in zip(problem.options, slots, strict=True)
    ]


def decode_slots(problem: PlanProblem, placed: Placed) -> list[Slot]:
    return [
        Slot(
            option=options[place],
            start=start,
            placement=tuple(NodeDevices(node=node, devices=tuple(devices)) for node, devices in shares),
        )
        for options, (place, start, shares) in zip(problem.options, placed, strict=True)
    ]


# Each module has the `improve` of a heuristic, the class of another search, or the `prove` of a bound.
SEARCHES = {
    "annealing": "slipway.jobs.plan.search.annealing",
    "lanes": "slipway.jobs.plan.search.lanes.search",
    "exact": "slipway.jobs.plan.search.cpsat.search",
}
PROOFS = {
    "bound": "slipway.jobs.plan.search.bounds.prove",
}


Answer: TypeAlias = dict[str, object]


def main() -> None:
    order = decode_order(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A library that prints must not write between our lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(answer: Answer) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    attempt(order, lambda: True, send)


def attempt(order: SearchOrder, keep_going: Callable[[], bool], answer: Callable[[Answer], object]) -> None:
    """Search or prove as ordered; if that fails, answer so: the plans that others found are kept."""

    def found(slots: Sequence[Slot]) -> None:
        answer({"slots": encode_slots(order.problem, slots)})

    def proven(bound: LowerBound) -> None:
        answer({"bound": asdict(bound)})

    try:
        if order.search in PROOFS:
            import_module(PROOFS[order.search]).prove(order.problem, keep_going=keep_going, proven=proven)
            return
        search, how = import_module(SEARCHES[order.search]), {"found": found, "start": order.start}
        if order.search == "exact":
            exact = search.ExactSearch(order.problem, proven=proven, bound=order.bound.value, **how)
            exact.improve(seed=order.seed, keep_going=keep_going)
        elif order.search == "annealing":
            annealing = search.Annealing(order.problem, order.start, order.bound.value)
            annealing.improve(seed=order.seed, keep_going=keep_going, found=found)
        else:
            search.improve(order.problem, seed=order.seed, keep_going=keep_going, **how)
    except Exception as error:  # noqa: BLE001 - whatever fails, the other searches go on
        answer({"failed": f"{order.search}: {type(error).__name__}: {error}"})


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
