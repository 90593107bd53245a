"""Finds the estimates that no other beats in time and cost, of whole jobs or of as many sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slipway.jobs.estimate.estimates import Estimate
from slipway.jobs.words.run import SECONDS_PER_HOUR

_COMPARED = 1_000_000  # sequences, because the cost of one has too many zeros to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Compare whole jobs if all train the same number of sequences, else a million sequences."""

    per_sequence: bool

    @property
    def units(self) -> tuple[str, str]:
        if self.per_sequence:
            return "hours a million sequences", "USD a million sequences"
        return "hours", "USD"

    def time(self, estimate: Estimate) -> float:
        if self.per_sequence:
            return _COMPARED / estimate.sequences_per_second / SECONDS_PER_HOUR
        assert estimate.hours is not None, "jobs of the same work have an end"
        return estimate.hours

    def cost(self, estimate: Estimate) -> float:
        """Return the cost; infinite if no price is known, so that such a row is never the cheapest."""
        if estimate.usd_per_hour is None:
            return math.inf
        if self.per_sequence:
            return estimate.usd_per_hour * self.time(estimate)
        assert estimate.usd is not None, "a job with an end and a price has a cost"
        return estimate.usd


def scale_of(estimates: Sequence[Estimate]) -> Scale:
    """Choose the scale: with a batch that grows with the nodes, steps train more sequences on more nodes."""
    trained = {estimate.sequences for estimate in estimates}
    return Scale(per_sequence=len(trained) != 1 or None in trained)


BEST, UNDECIDED, BEATEN = "*", "not told apart", ""


_Box = tuple[str, float, float, float, float, float, float]  # where it runs; least and most time, then cost


def verdicts(estimates: Sequence[Estimate]) -> list[str]:
    """Return a verdict for each row: no other can beat it in time and cost, one may, or one does."""
    scale = scale_of(estimates)
    boxes: list[_Box] = []
    for each in estimates:
        time, usd = scale.time(each), scale.cost(each)
        least, most = each.ranges.sequences_per_second
        slow, fast = each.sequences_per_second / least, each.sequences_per_second / most
        boxes.append((each.basis, time, usd, time * fast, time * slow, usd * fast, usd * slow))
    return [_verdict(box, boxes) for box in boxes]


def _verdict(box: _Box, others: Sequence[_Box]) -> str:
    basis, time, usd, soonest, latest, cheapest, dearest = box
    if math.isinf(usd):
        return BEATEN
    found = BEST
    for other in others:
        if other[0] == basis:
            if other[1] <= time and other[2] < usd:
                return BEATEN
        elif other[4] <= soonest and other[6] < cheapest:
            return BEATEN
        elif other[3] < latest and other[5] < dearest:
            found = UNDECIDED
    return found
