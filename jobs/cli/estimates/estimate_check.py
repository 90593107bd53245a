"""Prints published rows next to ours, and how near each kind of estimate came: `slipway estimate --check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from slipway.jobs.cli.estimates.formats import NO_BAND, band, percent, rounded
from slipway.jobs.output import Column, print_json, print_table, say

if TYPE_CHECKING:
    from slipway.jobs.estimate.evidence.bands import Band
    from slipway.jobs.estimate.evidence.trials import Trial

CHECKED = (
    Column(name="table"),
    Column(name="nodes", align="right"),
    Column(name="devices", align="right"),
    Column(name="basis"),
    Column(name="unit"),
    Column(name="published", align="right", format=rounded(2)),
    Column(name="predicted", align="right", format=rounded(2)),
    Column(name="error", align="right", format=percent),
    Column(name="limit", align="right", absent="-", format=band),
    Column(name="verdict"),
)
HELD = (
    Column(name="word", title="basis"),
    Column(name="device"),
    Column(name="rows", align="right"),
    Column(name="tables", align="right"),
    Column(name="near", title="near", align="right"),
    Column(name="within", title="nine of ten within", align="right", absent=NO_BAND, format=band),
    Column(name="told", title="told (median)", align="right", absent="-", format=band),
    Column(name="held", title="in the range told", align="right"),
)


def check_estimates(*, as_json: bool) -> None:
    from slipway.jobs.estimate.evidence.bands import (
        LEAST_ROWS,
        LEAST_TABLES,
        NEAR,
        bands_of,
        errors_by_word,
        left_out,
        median_width,
    )
    from slipway.jobs.estimate.evidence.published import check, epochs_by_length
    from slipway.jobs.estimate.evidence.trials import trials

    rows = list(check())
    tried = list(trials())
    bands, assumed = list(bands_of(tried)), list(epochs_by_length())
    table = [{**asdict(row), "error": row.error, "verdict": _verdict(row)} for row in rows]
    if as_json:
        information = {"gpt-j-6b on SST-2": [asdict(each) for each in assumed]}
        summed = {
            "bands": [asdict(each) for each in bands],
            "errors": [asdict(each) for each in errors_by_word(tried)],
            "ranges": {**asdict(left_out(tried)), "median_width": median_width(tried)},
        }
        print_json({"rows": table, **summed, "information": information})
    else:
        print_table("published and predicted", CHECKED, table, as_json=False)
        click.echo()
        print_table(
            "how near each kind of estimate came, over all published rows",
            HELD,
            [_held(each) for each in bands],
            as_json=False,
        )
        _say_errors(tried)
        say(f"near is within ± {NEAR:.0%}; a band needs {LEAST_ROWS} rows of {LEAST_TABLES} tables")
        say("each row is estimated without its own table, or with the smallest run of its model in it")
        say("GPT-J 6B, an epoch of SST-2 on one p4d.24xlarge: the article says from 58 minutes to under 10,")
        say("and no padded length. For information: " + "; ".join(_length(each) for each in assumed))
    failed = [row for row in rows if not row.passes]
    say(f"{len(rows) - len(failed)} of {len(rows)} rows are within their limits")
    if failed:
        raise click.exceptions.Exit(1)


def _say_errors(tried: Sequence[Trial]) -> None:
    from slipway.jobs.estimate.evidence.bands import errors_by_word, left_out, median_width

    for each in errors_by_word(tried):
        say(
            f"{each.word}, {each.rows} rows: off by {each.mean:.1%} on average, {each.median:.1%} in the "
            f"median, {each.ninth:.1%} at nine of ten; {each.held} in the range told"
        )
    judged, width = left_out(tried), median_width(tried)
    say(
        f"ranges, ± {width:.0%} in the median, held {judged.held / judged.rows:.1%} of rows and "
        f"{judged.held_of_a_table:.1%} of a table, each judged by the width that all other tables give"
    )


def _held(band: Band) -> Mapping[str, object]:
    held = f"{band.held} of {band.rows}" if band.rows else "-"
    return {**asdict(band), "near": f"{band.near} of {band.rows}", "held": held}


def _verdict(checked: Any) -> str:
    if checked.limit is None:
        return "used" if checked.basis == "calibrated" else "no limit"
    return "within" if checked.passes else "OUT"


def _length(assumed: Any) -> str:
    least, most = assumed.least_seconds / 60, assumed.most_seconds / 60
    return f"{assumed.sequence_length} tokens {least:.1f} to {most:.1f} min"
