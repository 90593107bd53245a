"""A browser shows the report as one page that loads nothing and describes each chart in words."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from slipway.jobs.estimate.estimates import PricedHardware, estimate
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.inputs.places import alone
from slipway.jobs.estimate.pareto import BEST, UNDECIDED, verdicts
from slipway.jobs.estimate.prices import known_rates
from slipway.jobs.estimate.work.workloads import find_workload
from slipway.jobs.report.contents import Comparison, RunBesideEstimate, job_page
from slipway.jobs.report.page import render
from slipway.jobs.submit.curve import Point
from slipway.jobs.words.catalogue.instances import instance_type
from tests.browser import Browser, needs_browser, unreadable
from tests.jobs.conftest import Slipway

pytest.importorskip("vl_convert")

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>&\x1b[2J"


class Reading(HTMLParser):
    """Collect what a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def place(name: str) -> PricedHardware:
    return alone(instance_type(name), known_rates(), region=None, term="on-demand")


def run_page(name: str = "bert_pretrain-0123", *, in_yard: bool = False) -> str:
    workload, where, rows = find_workload("bert-large"), place("dl1.24xlarge"), our_measurements()
    sizes = [estimate(workload, where, nodes, rows) for nodes in (1, 2, 4)]
    curve = [
        Point(step=step, steps=40, loss=1.0, sequences_per_second=2600.0 + step, attempt=1)
        for step in range(1, 41)
    ]
    run = RunBesideEstimate(
        name=name,
        nodes=2,
        measured=2620.0,
        steps=30,
        curve=curve,
        predicted=2716.9,
        predicted_word="calibrated",
        predicted_band=0.06,
        devices=16,
        instance_type="dl1.24xlarge",
        is_of_the_yard=in_yard,
    )
    compared = Comparison(
        estimates=sizes, verdicts=verdicts(sizes), priced_at={where.name: "us-east-1, 2026-07-20"}
    )
    return render(job_page(workload, where, sizes, compared, run))


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def page(tmp_path: Path, slipway: Slipway) -> Path:
    path = tmp_path / "page.html"
    err = slipway.told("report", "page", "bert-large", "--on", "dl1", "-o", str(path))
    assert f"written to {path}" in err
    return path


def test_a_page_names_nothing_outside_of_itself(page: Path) -> None:
    text = page.read_text()
    read = Reading(text)
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "img", "iframe", "object", "image", "use"})
    assert [link["href"] for link in read.all("link")] == ["data:,"]
    assert "@import" not in text
    assert "url(" not in text
    policies = [each["content"] for each in read.all("meta") if each.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert len(text) < 400_000


def test_a_page_has_the_curve_the_front_and_the_prices_day(page: Path) -> None:
    read = Reading(page.read_text())
    for promised in ("ideal", "measured", "predicted", "beaten by none", "2026-07-20", "Not counted: efs"):
        assert promised in read.text
    for measured in ("1,379.76", "2,705.57", "5,291.58", "9,977.54"):
        assert measured in read.text


def test_a_recipe_s_page_is_of_the_article_s_size_and_says_which(tmp_path: Path, slipway: Slipway) -> None:
    """A tiny size takes ten seconds and a cent anywhere, so no chart is needed."""
    asked = ("report", "page", "bert_pretrain", "--on", "dl1.24xlarge", "-o", str(tmp_path / "page.html"))
    assert "for the article's size: --set size=large" in slipway.told(*asked)
    text = Reading((tmp_path / "page.html").read_text()).text
    assert "bert_pretrain, bert-large on dl1.24xlarge" in text
    for cell in re.findall(r"[0-9][0-9,.]* (?:h|min|s) to [0-9][0-9,.]* (?:h|min|s)", text):
        digits = [re.sub(r"[^0-9]", "", word).strip("0") for word in cell.split(" to ")]
        assert all(1 <= len(word) <= 2 for word in digits), cell
    assert " to 0" not in text
    slipway(*asked, "--set", "size=tiny")
    assert "bert_pretrain, bert-tiny" in (tmp_path / "page.html").read_text()


def test_a_page_and_compare_say_the_same_of_what_beats_what(page: Path, slipway: Slipway) -> None:
    rows = slipway.json("compare", "bert-large", "--json")
    told = [each["best"] for each in rows if each["best"] in (BEST, UNDECIDED)]
    text = Reading(page.read_text()).text
    assert UNDECIDED in told
    assert f"{told.count(BEST)} of them are beaten by none, and {told.count(UNDECIDED)} are not told" in text
    cheapest = min((each for each in rows if each["best"]), key=lambda each: each["usd"])
    assert f"at the least: {cheapest['nodes']} × {cheapest['place']}, {UNDECIDED} from others" in text


def test_a_page_parts_the_time_of_a_step(page: Path) -> None:
    text = Reading(page.read_text()).text
    assert "Where a step's time goes" in text
    assert re.search(r"products of matrices, at the device's peak\s*[0-9.]+%", text)


def test_every_chart_is_told_to_those_who_do_not_see_it(page: Path) -> None:
    text = page.read_text()
    read = Reading(text)
    charts = [each for each in read.all("svg") if each.get("role") == "img"]
    assert len(charts) == 4  # two, each for wide pages and for phones
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for chart in charts:
        assert set(str(chart["aria-labelledby"]).split()) <= set(ids)
    assert all(each.get("scope") == "col" for each in read.all("th"))


def test_a_run_stands_beside_its_estimate(tmp_path: Path) -> None:
    text = Reading(run_page()).text
    assert "2,620.0 sequences a second; the estimate is 2,716.9 (calibrated, ± 6%)" in text
    assert "96.43% of it" in text
    assert "in the yard" not in text


def test_a_run_of_the_yard_says_nothing_about_the_cluster() -> None:
    text = Reading(run_page(in_yard=True)).text
    assert "ran in the yard, on this machine, and says nothing about a dl1.24xlarge" in text


def test_a_name_cannot_put_anything_into_the_page() -> None:
    text = run_page(HOSTILE)
    assert not Reading(text).all("script")
    assert not Reading(text).all("img")
    assert "\x1b" not in text


def test_the_published_tables_are_a_page_too(tmp_path: Path, slipway: Slipway) -> None:
    path = tmp_path / "published.html"
    slipway.told("report", "page", "-o", str(path))
    text = Reading(path.read_text()).text
    assert "47 of 47" in text
    assert "trn1/gpt-neox-20b" in text


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("bert-large", "-o", "/nowhere/at/all.html"), "there is no folder /nowhere/at"),
        (("bert-large",), "Missing option '-o'"),
        (("bert-large", "--on", "dl2", "-o", "x.html"), "neither a declared cluster"),
        (("bert-lrge", "--on", "dl1", "-o", "x.html"), "is neither a recipe nor a model"),
    ],
)
def test_what_cannot_be_written_is_told_in_a_line(
    slipway: Slipway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    code, out, err = slipway("report", "page", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert error in err.replace("\n", " ")
    assert not (tmp_path / "x.html").exists()


@needs_browser
@pytest.mark.slow
def test_a_browser_finds_nothing_to_complain_of_and_asks_the_network_for_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    """Write the page with every chart, and with a run whose name tries to do harm."""
    page = tmp_path / "page.html"
    page.write_text(run_page(HOSTILE))
    with browser.visit(page.as_uri()) as visit:
        assert not list(unreadable(visit))
        assert (visit.said, visit.asked_elsewhere()) == ([], [])
        assert visit.picture(tmp_path / "page.png", whole=True).stat().st_size > 50_000  # no empty sheet


@needs_browser
@pytest.mark.slow
def test_the_browser_would_have_told_of_all_that_it_is_asked_about(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<img src="http://127.0.0.1:9/x.png"><script>console.error("seen")</script>'
        '<p style="color: #999; background: #fff; width: 400px">pale words</p>'
        '<div class="long" style="overflow-x: auto; width: 100px"><p style="width: 200px">words</p></div>'
    )
    with browser.visit(page.as_uri()) as visit:
        assert "seen" in visit.said
        assert visit.asked_elsewhere() == ["http://127.0.0.1:9/x.png"]
        found = [*unreadable(visit)]
    assert "light: too pale {'pale words': 2.85}" in found
    assert "print: cut off ['DIV long']" in found
    assert any(line.startswith("phone: ") and line.endswith(" pixels too wide") for line in found)
