"""Prints the whole bill of a job at one or more sizes: `slipway estimate --bill`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from slipway.jobs.cli.estimates.formats import hours, rounded
from slipway.jobs.output import Column, print_table, say

if TYPE_CHECKING:
    from slipway.jobs.estimate.estimates import Estimate, PricedHardware

COLUMNS = (
    Column(name="nodes", align="right"),
    Column(name="item"),
    Column(name="hours", title="time", align="right", format=hours),
    Column(name="usd", title="cost", unit="USD", align="right", format=rounded(2)),
    Column(name="basis", title="which is"),
)


def print_bill(
    title: str,
    place: PricedHardware,
    found: Sequence[Estimate],
    assumptions: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from slipway.jobs.estimate.bill import NOT_COUNTED, assumed, bill

    taken = assumed(assumptions)
    lines = [{"nodes": own.nodes, **asdict(line)} for own in found for line in bill(own, place, taken)]
    print_table(f"the bill of {title}", COLUMNS, lines, as_json=as_json)
    for each in NOT_COUNTED:
        say(f"not counted: {each}")
