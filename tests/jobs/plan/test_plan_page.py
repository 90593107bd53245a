"""A plan's page shows every job where it runs, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.plan.plan_page import plan_page
from slipway.jobs.plan.search.list_schedule import as_plan, list_schedule
from slipway.jobs.plan.search.model import Goal, LowerBound, Mode, Plan, PlanJob, Pool
from slipway.jobs.plan.search.options import new_problem
from slipway.jobs.report.page import render
from tests.browser import DESK, PHONE, Browser, needs_browser, unreadable
from tests.jobs.report.test_report import Reading

# Find the height in pixels of the visible drawing's letters, which shrink with the SVG.
SMALLEST_WORDS = """Math.min(...[...document.querySelectorAll('svg.plan text')]
  .filter(each => each.checkVisibility())
  .map(each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a))"""
HOSTILE = "</title><script>alert(1)</script><img src=x>\x1b[2J"


def plan(*, nodes: int = 2, spot: bool = False, deadline: int | None = None, jobs: int = 3) -> Plan:
    pool = Pool(type="p4d", nodes=nodes, devices_per_node=8, price_per_hour=36.0, is_spot=spot)
    modes = (Mode(technique="fsdp", type="p4d", devices=4, seconds=3600),)
    asked = [
        PlanJob(name=HOSTILE, modes=(replace(modes[0], devices=16),)),
        *(PlanJob(name=f"job-{number}", modes=modes) for number in range(1, jobs)),
    ]
    problem = new_problem(asked, [pool], Goal(deadline=deadline))
    slots = list_schedule(problem, [0] * jobs, range(jobs))
    return as_plan(problem, slots, LowerBound(value=5400, name="area"))


def test_every_job_is_a_bar_that_says_technique_times_and_dollars() -> None:
    text = render(plan_page(plan()))
    assert "job-1: fsdp on 4 × p4d, node 0: 0-3, 1:00:00 to 2:00:00, $18.00" in Reading(text).text
    assert text.count("<g><title>") == 2 * 3  # for wide pages, and for phones


def test_the_bound_and_the_deadline_are_lines() -> None:
    text = render(plan_page(plan(deadline=7200)))
    assert "no plan ends before 1:30:00" in text
    assert "deadline 2:00:00" in text
    assert "deadline 2:00:00" not in render(plan_page(plan()))


def test_spot_is_hatched_and_what_ran_stands_below_the_plan() -> None:
    own = plan(spot=True)
    late = [replace(each, start=each.start + 60) for each in own.assignments]
    text = render(plan_page(own, late))
    assert text.count('class="spot"') == 2 * 6
    assert "What ran" in text
    assert "1:01:00 to 2:01:00" in Reading(text).text
    assert "What ran" not in render(plan_page(plan()))
    assert 'class="spot"' not in render(plan_page(plan()))


def test_a_thousand_devices_are_a_row_a_node_that_can_be_read() -> None:
    text = render(plan_page(plan(nodes=128, jobs=300)))
    assert len(re.findall(r">node \d+<", text)) >= 64
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', text)
    assert size is not None
    assert int(size[2]) < 2500
    assert len(text) < 300_000


def test_the_page_has_no_script_and_a_table_says_the_same_as_the_picture() -> None:
    text = render(plan_page(plan()))
    read = Reading(text)
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "img", "iframe", "object", "image", "use"})
    assert "\x1b" not in text
    drawings = [each for each in read.all("svg") if each.get("role") == "img"]
    assert [each["class"] for each in drawings] == ["plan wide", "plan phone"]
    assert [text.count(f'id="{each["aria-labelledby"]}"') for each in drawings] == [1, 1]
    assert "the table below says the same" in read.text
    assert len(read.all("td")) == 3 * 9
    assert all(each.get("tabindex") == "0" for each in read.all("div") if each.get("class") == "scroll")
    assert "prefers-color-scheme: dark" in text


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "jobs"), [(2, 3), (128, 300)])
def test_a_plan_can_be_read_on_a_phone_in_the_dark_and_on_paper(
    browser: Browser, tmp_path: Path, nodes: int, jobs: int
) -> None:
    page = tmp_path / "plan.html"
    own = plan(nodes=nodes, jobs=jobs, spot=True, deadline=7200)
    page.write_text(render(plan_page(own, own.assignments)))
    with browser.visit(page.as_uri()) as visit:
        assert not list(unreadable(visit))
        assert (visit.said, visit.asked_elsewhere()) == ([], [])
        visit.look(width=PHONE)
        assert visit.evaluate(SMALLEST_WORDS) >= 9.5  # type: ignore[operator]  # it is a number
        visit.look(width=DESK)
        assert visit.picture(tmp_path / "plan.png").stat().st_size > 20_000  # drawn, and no empty sheet
