"""The page of a plan: its drawing, what ran of it where that is known, and a table that says the same."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.jobs.plan.plan_drawing import plan_drawing
from slipway.jobs.plan.search.model import Assignment, Plan
from slipway.jobs.plan.search.words import bound_words, clock, devices_by_node, dollars_of_job
from slipway.jobs.report.page import Fact, Page, PageTable, Section


def plan_page(plan: Plan, actual: Sequence[Assignment] = ()) -> Page:
    """Build the page; `actual` says where and when jobs ran, each with its real seconds."""
    names = {job.name for job in plan.jobs}
    ran = [each for each in actual if each.job in names]
    sections = [_drawn("The plan", plan, plan.assignments, 0)]
    if ran:
        sections.append(_drawn("What ran", plan, ran, 1))
    return Page(
        title=f"A plan of {len(plan.jobs)} jobs",
        lead="Each bar is a job on its devices; grey devices are idle, and hatched bars run on spot nodes.",
        facts=_facts(plan),
        sections=[*sections, Section(title="Job by job", table=_table(plan))],
        notes=_notes(plan),
    )


def _facts(plan: Plan) -> list[Fact]:
    return [
        Fact(value=clock(plan.makespan), what="until all jobs have ended (h:mm:ss)"),
        Fact(value=f"${plan.dollars:,.2f}", what=f"billed by {plan.goal.billing}"),
        Fact(
            value=f"{plan.gap:.1%}" if plan.bound.value > 0 else "unknown", what="at most above the best plan"
        ),
    ]


def _drawn(title: str, plan: Plan, runs: Sequence[Assignment], number: int) -> Section:
    said = f"{title}: {len(runs)} jobs in {len(plan.pools)} pools"
    return Section(title=title, drawing=plan_drawing(plan, runs, said, number), drawing_label=said)


def _table(plan: Plan) -> PageTable:
    return PageTable(
        caption="Job by job",
        headings=(
            "job",
            "technique",
            "type",
            "devices",
            "on node: devices",
            "start",
            "end",
            "USD",
            "estimate",
        ),
        rows=[
            (
                each.job,
                each.mode.technique,
                each.mode.type,
                str(each.mode.devices),
                devices_by_node(each, plan.pools[each.pool]),
                clock(each.start),
                clock(each.end),
                f"{dollars_of_job(plan, each):,.2f}",
                f"{each.mode.source} ± {each.mode.error:.0%}" if each.mode.error else each.mode.source,
            )
            for each in plan.assignments
        ],
    )


def _notes(plan: Plan) -> list[str]:
    stopped = [f"The search stopped: {plan.stopped}."] if plan.stopped else []
    return [f"{bound_words(plan).capitalize()}.", "Times count from the start of the plan.", *stopped]
