"""The table of a plan: a row for each job, in the order in which they start."""

from __future__ import annotations

from slipway.jobs.commands.output import Column, Row, print_table, print_text
from slipway.jobs.planner.model import Assignment, Plan
from slipway.jobs.planner.words import clock, devices_by_node, dollars_of_job, summary

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


def print_plan(plan: Plan) -> None:
    placed = sorted(plan.assignments, key=lambda each: (each.pool, each.start, each.placement[0].node))
    print_table("", COLUMNS, [_row(plan, each) for each in placed], as_json=False)
    print_text(summary(plan))


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
