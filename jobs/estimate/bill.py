"""Lists what a job costs besides its training: starting nodes, work lost to failures, storage and network.

Pure. Another line is one entry in `bill`, another assumption one field of BillAssumptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.estimates import Estimate, PricedHardware
from slipway.jobs.estimate.prices import ON_DEMAND, SPOT, what_is_paid
from slipway.jobs.estimate.work.workloads import number
from slipway.jobs.words.catalogue.instances import SAGEMAKER
from slipway.jobs.words.catalogue.regional import HOURS_PER_MONTH, find_fee

_MINUTES, _HOURS_A_DAY = 60.0, 24.0
_MOST = 1e9

NOT_COUNTED = (
    "data through endpoints and NAT, requests, and logs",
    "evaluation and the writing of checkpoints, during which a training of ours hardly waits",
    "the time in a queue, in which no node stands, and nodes that wait after the job",
    "what a cluster costs while nothing runs: slipway estimate --idle CLUSTER",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BillAssumptions:
    """Hold what a bill has to assume; `--assume name=value` replaces one assumption."""

    start_minutes: float = 10.0  # for each node to boot, join and get its image
    # Llama 3's training had 419 unexpected interruptions in 54 days on 2,048 nodes of eight GPUs (Meta,
    # 2024).
    failures: float = 3.8  # in a thousand days of one node
    save_minutes: float = 30.0  # between two checkpoints: a failure costs half of it, and another start
    stored_gib: float = 0.0  # in the shared file system while the job runs
    interruptions: float | None = None  # by Spot, of one node in an hour; None: the user gave none
    savings: float = 0.0  # percent that a savings plan takes off on-demand prices


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    item: str
    hours: float
    usd: float | None  # None: the price is unknown
    basis: str


def assumed(texts: Sequence[str]) -> BillAssumptions:
    """Read `--assume name=value`; refuse an unknown name, and a negative value."""
    known = {field.name for field in fields(BillAssumptions)}
    changed = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise CannotEstimate(
                f"--assume {text}: a bill assumes no such thing",
                hint=f"did you mean {close[0]}=VALUE?" if close else f"there are {', '.join(sorted(known))}",
            )
        changed[name] = number(name, value.removesuffix("%") if name == "savings" else value)
        if not 0 <= changed[name] <= _MOST:  # also False for nan
            raise CannotEstimate(f"--assume {text} cannot be", hint="give 0 or more")
    taken = replace(BillAssumptions(), **changed)
    if taken.savings >= 100:
        raise CannotEstimate(f"--assume savings={taken.savings:g} cannot be", hint="give 0 to 99.9 percent")
    return taken


def bill(estimate: Estimate, place: PricedHardware, taken: BillAssumptions) -> tuple[BillLine, ...]:
    """List what the job costs at this size, with the sum; refuse a job without an end or without a price."""
    if estimate.hours is None:
        raise CannotEstimate(
            "a job without a known end has no bill",
            hint="say --set steps=N, or --set sequences=N for a model",
        )
    if place.rate is None:
        raise CannotEstimate(
            f"no price of {place.instance.name} is known, so there is no bill",
            hint="slipway instance refresh-prices asks AWS for it",
        )
    _refuse_other_term(place.rate.term, taken)
    lines = [*_of_nodes(estimate, estimate.hours, place, taken)]
    until_end = sum(line.hours for line in lines)
    lines += _around(estimate, place, taken, until_end)
    known = math.fsum(line.usd for line in lines if line.usd is not None)
    unknown = [line.item for line in lines if line.usd is None]
    basis = f"without {', '.join(unknown)}, which is not known" if unknown else ""
    return (*lines, BillLine(item="in all", hours=until_end, usd=known, basis=basis))


def _of_nodes(
    estimate: Estimate, hours: float, place: PricedHardware, taken: BillAssumptions
) -> Sequence[BillLine]:
    assert place.rate is not None, "bill has refused nodes without a price"
    each = place.rate.usd_per_hour * (1 - taken.savings / 100)
    rate = estimate.nodes * each
    is_sagemaker = place.instance.name.startswith(SAGEMAKER)
    start = 0.0 if is_sagemaker else taken.start_minutes / _MINUTES
    failures = taken.failures / 1000 / _HOURS_A_DAY * estimate.nodes * hours
    lost = failures * (taken.save_minutes / 2 + taken.start_minutes) / _MINUTES
    price = f"{estimate.nodes} × {each:g} USD an hour, {place.rate.date}"
    if taken.savings:
        price += f", {place.rate.usd_per_hour:g} less {taken.savings:g} % of savings, which is assumed"
    starting = (
        "SageMaker bills from when they stand" if is_sagemaker else f"{taken.start_minutes:g} minutes assumed"
    )
    failing = (
        f"{failures:.3g} expected, of {taken.failures:g} in a thousand days of a node; each costs half of "
        f"{taken.save_minutes:g} minutes and another start"
    )
    parts = (
        ("nodes, training", hours, price),
        ("nodes, starting", start, starting),
        ("nodes, repeating what failures cost", lost, failing),
    )
    lines = [BillLine(item=item, hours=each, usd=rate * each, basis=basis) for item, each, basis in parts]
    return [*lines, _taken_by_spot(estimate, hours, rate, taken)] if place.rate.term == SPOT else lines


def _taken_by_spot(estimate: Estimate, hours: float, rate: float, taken: BillAssumptions) -> BillLine:
    """Count what Spot's interruptions repeat: each stops all nodes, and repeated work is interrupted, too."""
    item = "nodes, repeating what Spot takes"
    if taken.interruptions is None:
        said = "not known how often Spot takes a node: --assume interruptions=N, of one in an hour"
        return BillLine(item=item, hours=0.0, usd=None, basis=said)
    often = taken.interruptions * estimate.nodes
    share = often * (taken.save_minutes / 2 + taken.start_minutes) / _MINUTES
    if share >= 1:
        raise CannotEstimate(
            f"with {often:g} interruptions an hour, {estimate.nodes} nodes repeat more work than they do",
            hint="take fewer nodes, or save more often: --assume save_minutes=N",
        )
    lost = hours * share / (1 - share)
    basis = (
        f"{often * (hours + lost):.3g} expected, of {taken.interruptions:g} of a node in an hour, assumed; "
        f"each costs half of {taken.save_minutes:g} minutes and another start"
    )
    return BillLine(item=item, hours=lost, usd=rate * lost, basis=basis)


def _refuse_other_term(term: str, taken: BillAssumptions) -> None:
    if taken.interruptions is not None and term != SPOT:
        raise CannotEstimate(
            f"--assume interruptions={taken.interruptions:g}: nobody interrupts {term} nodes so",
            hint="say --term spot, or --assume failures=N",
        )
    if taken.savings and term != ON_DEMAND:
        raise CannotEstimate(
            f"--assume savings={taken.savings:g}: it is taken off on-demand prices, and these are {term}",
            hint=f"leave out savings or --term {term}",
        )


def _around(
    estimate: Estimate, place: PricedHardware, taken: BillAssumptions, hours: float
) -> Sequence[BillLine]:
    """List the cost of everything around the nodes while they run; a file system costs by what it stores."""
    lines = []
    for item in what_is_paid(place.overheads, place.region, estimate.nodes):
        each, note = item.usd_per_hour, item.note
        fee = find_fee(place.overheads.file_system_item, place.region)
        if (
            each is None
            and item.name == place.overheads.file_system
            and fee is not None
            and fee.usd is not None
        ):
            each = taken.stored_gib * fee.usd / HOURS_PER_MONTH
            note = f"{taken.stored_gib:g} GiB of stored_gib, {fee.usd:g} USD per GiB-month, {fee.date}"
        usd = None if each is None else each * hours
        lines.append(BillLine(item=item.name, hours=hours, usd=usd, basis=note))
    return lines
