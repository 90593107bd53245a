"""The tables of a plan: its jobs, why one has its mode, and what changed since another plan."""

from __future__ import annotations

from slipway.jobs.output import Column, Row, print_table, print_text
from slipway.jobs.plan.search.diff import (
    PlanChange,
    PlanDiff,
    clock,
    devices_by_node,
    dollars_of_job,
    summary,
)
from slipway.jobs.plan.search.explain import Alternative, ModeExplanation
from slipway.jobs.plan.search.model import Assignment, Plan
from slipway.jobs.plan.search.refusals import words_of
from slipway.jobs.words.text import printable

COLUMNS = (
    Column(name="job"),
    Column(name="technique"),
    Column(name="type"),
    Column(name="devices", align="right"),
    Column(name="nodes", title="on node: devices"),
    Column(name="start", align="right"),
    Column(name="end", align="right"),
    Column(name="usd", title="cost", unit="USD", align="right"),
)
ALTERNATIVES = (
    Column(name="mode"),
    Column(name="time", align="right"),
    Column(name="error", title="within", align="right"),
    Column(name="device_hours", align="right"),
    Column(name="usd", title="cost", unit="USD", align="right"),
    Column(name="makespan", title="the plan ends by", align="right"),
    Column(name="plan_usd", title="and costs", unit="USD", align="right"),
    Column(name="note", title=" "),
)
CHANGES = (
    Column(name="job"),
    Column(name="difference", title="change"),
    Column(name="before"),
    Column(name="after"),
)


def print_plan(plan: Plan) -> None:
    placed = sorted(plan.assignments, key=lambda each: (each.pool, each.start, each.placement[0].node))
    print_table("", COLUMNS, [_row(plan, each) for each in placed], as_json=False)
    print_text(summary(plan))


def print_explanation(found: ModeExplanation) -> None:
    each = found.assignment
    print_text(f"\n{printable(each.job)}: {words_of(each.mode)}, {clock(each.start)} to {clock(each.end)}")
    print_text(f"why: {found.why}")
    print_text(f"next best: {found.next_best}")
    print_table("", ALTERNATIVES, [_alternative(option) for option in found.alternatives], as_json=False)


def print_diff(found: PlanDiff) -> None:
    print_text("")
    if found.changes:
        print_table("", CHANGES, [_change_row(each) for each in found.changes], as_json=False)
    seconds = ("+" if found.makespan_seconds >= 0 else "-") + clock(abs(found.makespan_seconds))
    print_text(
        f"{len(found.changes)} jobs changed, {found.same} are as before; makespan {seconds}, "
        f"cost {found.dollars:+,.2f} USD"
    )


def _row(plan: Plan, each: Assignment) -> Row:
    return {
        "job": each.job,
        "technique": each.mode.technique,
        "type": each.mode.type,
        "devices": each.mode.devices,
        "nodes": devices_by_node(each, plan.pools[each.pool]),
        "start": clock(each.start),
        "end": clock(each.end),
        "usd": f"{dollars_of_job(plan, each):,.2f}",
    }


def _alternative(own: Alternative) -> Row:
    mode = own.option.mode
    note = "chosen" if own.is_chosen else f"misses {own.misses}" if own.misses else ""
    return {
        "mode": words_of(mode),
        "time": clock(own.option.seconds),
        "error": f"± {mode.error:.0%}" if mode.error else mode.source,
        "device_hours": f"{own.device_hours:,.2f}",
        "usd": f"{own.option.dollars:,.2f}",
        "makespan": clock(own.makespan),
        "plan_usd": f"{own.dollars:,.2f}",
        "note": note,
    }


def _change_row(change: PlanChange) -> Row:
    return {
        "job": change.job,
        "difference": change.difference,
        "before": change.before,
        "after": change.after,
    }
