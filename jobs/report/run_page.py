"""Writes what the page of a run says, of your own code too: its curves, attempts, nodes, cost and last lines.

Pure: the run and all that it printed are arguments. Another section is one function here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from slipway.jobs.report.charts import Chart, curves
from slipway.jobs.report.page import Fact, Page, PageTable, Section
from slipway.jobs.submit.curve import thinned
from slipway.jobs.submit.logs import LogLine
from slipway.jobs.submit.metrics import HELD_OUT, LOSS, RATE, LoggedStep, read
from slipway.jobs.words.catalogue.instances import ON_DEMAND
from slipway.jobs.words.run import TERM_WORDS, Run
from slipway.jobs.words.text import moment, money

LAST_LINES = 40
_MOST_CHARTS = 12  # nobody reads a page of more
_MOST_POINTS = 500  # of one line, which is no more pixels wide
_MAIN_RANK = 0
_UNITS = {RATE: "sequences a second", "tokens_per_second": "tokens a second"}
_BEGAN = re.compile(
    r"\[node (?P<node>\d+)\] .*, attempt (?P<attempt>\d+): (?P<ranks>ranks .*?) start on (?P<host>.+)"
)


def run_page(run: Run, lines: Sequence[LogLine]) -> Page:
    readings = read(line.text for line in lines if line.rank == _MAIN_RANK)
    sections = [*_curves(readings), _attempts(run), _nodes(run, lines), _last_lines(lines)]
    notes = ["Cost covers all attempts, from the start of the job; AWS bills machines some minutes more."]
    if not readings:
        notes.append("The first rank printed nothing in which Slipway finds a step and a metric.")
    if any(not each.has_step for each in readings):
        notes.append("No line names its step, so reports are counted instead.")
    return Page(
        title=run.name,
        lead=f"{run.recipe or 'a job'} on {run.nodes or 'an unknown number of'} × {run.instance_type}, "
        f"cluster {run.target} in {run.region}.",
        facts=[*_facts(run), *_reached(readings)],
        sections=[section for section in sections if section is not None],
        notes=(*notes, f"Read of {run.id} as it was {run.state.value}."),
    )


def _facts(run: Run) -> Iterator[Fact]:
    yield Fact(value=run.state.value, what=run.reason or f"AWS says {run.status}")
    yield Fact(value="unknown" if run.hours is None else f"{run.hours:,.2f} h", what="of all attempts")
    usd, price = run.cost.usd, run.cost.price
    priced = (
        f"{TERM_WORDS[price.term]}, at {price.usd_per_hour} USD a node and hour, {price.region}, {price.date}"
        if price
        else "no price is known"
    )
    about = "about " if price and price.term != ON_DEMAND else ""
    yield Fact(value="unknown" if usd is None else f"{about}{money(usd)} USD", what=priced)


def _reached(readings: Sequence[LoggedStep]) -> Iterator[Fact]:
    for name in (LOSS, f"{HELD_OUT}{LOSS}"):
        values = [each for each in readings if name in each.metrics]
        if values:
            last = values[-1]
            end = f" of {last.steps:,}" if last.steps else ""
            place = f"step {last.step:,}{end}" if last.has_step else f"report {last.step}"
            yield Fact(value=f"{last.metrics[name]:.4g}", what=f"{name.replace('_', ' ')} at {place}")


def _curves(readings: Sequence[LoggedStep]) -> Iterator[Section]:
    """Draw each metric by step; an evaluation shares the chart of the metric that it evaluates."""
    names = dict.fromkeys(name.removeprefix(HELD_OUT) for each in readings for name in each.metrics)
    first = [name for name in (LOSS, RATE, "tokens_per_second") if name in names]
    ordered = [*first, *(name for name in names if name not in first)]
    drawn = [chart for name in ordered if (chart := _chart(name, readings)) is not None]
    for chart in drawn[:_MOST_CHARTS]:
        yield Section(title=chart.title, chart=chart)
    if left := drawn[_MOST_CHARTS:]:
        yield Section(title="Other metrics", text=", ".join(chart.title for chart in left))


def _chart(name: str, readings: Sequence[LoggedStep]) -> Chart | None:
    found = {
        series: [
            (each.step, each.metrics[key])
            for each in readings
            if key in each.metrics and math.isfinite(each.metrics[key])
        ]
        for series, key in (("training", name), ("evaluation", f"{HELD_OUT}{name}"))
    }
    known = {series: thinned(values, _MOST_POINTS) for series, values in found.items() if values}
    if not known:
        return None
    return curves(name.replace("_", " "), _UNITS.get(name, name.replace("_", " ")), known)


def _attempts(run: Run) -> Section | None:
    if not run.attempts:
        return None
    rows = []
    for number, attempt in enumerate(run.attempts, start=1):
        started, stopped = attempt.started_at, attempt.stopped_at
        hours = f"{(stopped - started).total_seconds() / 3600:,.2f}" if started and stopped else "unknown"
        row = (
            str(number),
            moment(started) if started else "unknown",
            moment(stopped) if stopped else "unknown",
            hours,
            "unknown" if attempt.exit_code is None else str(attempt.exit_code),
            attempt.reason or "",
        )
        rows.append(row)
    headings = ("attempt", "started", "stopped", "hours", "exit code", "reason")
    return Section(
        title="Attempts that ended",
        table=PageTable(caption="attempts", headings=headings, rows=rows),
    )


def _nodes(run: Run, lines: Sequence[LogLine]) -> Section | None:
    """List the ranks and host of each node in every attempt, as its launcher logged them."""
    found = [match for line in lines if (match := _BEGAN.match(line.text))]
    if not found:
        return None
    rows = [(each["node"], each["attempt"], each["host"], each["ranks"]) for each in found]
    return Section(
        title=f"Nodes, of {run.instance_type}",
        table=PageTable(caption="nodes", headings=("node", "attempt", "host", "ranks"), rows=sorted(rows)),
    )


def _last_lines(lines: Sequence[LogLine]) -> Section | None:
    if not lines:
        return None
    last = list(lines)[-LAST_LINES:]
    return Section(
        title=f"The last {len(last)} lines of its log",
        table=PageTable(
            caption="log",
            headings=("node", "time", "line"),
            rows=[(str(line.node), moment(line.time), line.text) for line in last],
        ),
    )
