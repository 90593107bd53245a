"""Writes one HTML page that needs nothing else: its own style, drawn charts, tables, and no script.

The content security policy in its head forbids every request, whatever text a run's name or log may hold.
Another kind of content is one field of Section and its line in `_section`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from slipway.jobs.estimate.evidence.published import Checked
from slipway.jobs.estimate.evidence.tables import TABLES, Table
from slipway.jobs.report.charts import RATE, Chart, drawn, scaling
from slipway.jobs.words.text import printable

# img-src data: allows the empty icon of the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    value: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: str
    text: str = ""
    chart: Chart | None = None
    drawing: str = ""  # SVG, inserted unescaped
    drawing_label: str = ""
    table: PageTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    title: str
    lead: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    notes: Sequence[str]


def render(page: Page) -> str:
    style = files("slipway.jobs.report").joinpath("page.css").read_text(encoding="utf-8")
    items = "".join(
        f"<li><b>{safe_text(fact.value)}</b><span>{safe_text(fact.what)}</span></li>" for fact in page.facts
    )
    facts = f'<ul class="facts">{items}</ul>' if items else ""
    sections = "\n".join(_section(each, number) for number, each in enumerate(page.sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{safe_text(page.title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
<h1>{safe_text(page.title)}</h1>
<p class="lead">{safe_text(page.lead)}</p>
{facts}
{sections}
<h2>What the numbers rest on</h2>
{"".join(f'<p class="note">{safe_text(note)}</p>' for note in page.notes)}
</main>
</body>
</html>
"""


def _section(section: Section, number: int) -> str:
    parts = [f"<h2>{safe_text(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{safe_text(section.text)}</p>")
    if section.chart is not None:
        caption = f"<figcaption>{safe_text(section.chart.description)}</figcaption>"
        parts.append(f"<figure>{drawn(section.chart, number)}{caption}</figure>")
    if section.drawing:
        parts.append(f"{_scrolled(section.drawing_label)}{section.drawing}</div>")
    if section.table is not None:
        head = "".join(f'<th scope="col">{safe_text(heading)}</th>' for heading in section.table.headings)
        rows = "".join(
            "<tr>" + "".join(f"<td>{safe_text(cell)}</td>" for cell in row) + "</tr>"
            for row in section.table.rows
        )
        parts.append(
            f"{_scrolled(section.table.caption)}<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )
    return "<section>" + "\n".join(parts) + "</section>"


def _scrolled(label: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{safe_text(label)}">'


def safe_text(text: str) -> str:
    """Return text for HTML in which nothing is markup, and no character hides or moves others."""
    return escape(printable(text))


# The page of the published tables. Pure: the compared rows are arguments.


def published_page(rows: Sequence[Checked]) -> Page:
    passing = sum(row.passes for row in rows)
    return Page(
        title="Published tables, predicted",
        lead="Points are what articles print; lines are predicted from the smallest row of each table.",
        facts=(Fact(value=f"{passing} of {len(rows)}", what="rows within their limits"),),
        sections=[_table_section(table, rows) for table in TABLES.values()],
        notes=tuple(dict.fromkeys(f"{table.source}, {table.date}" for table in TABLES.values())),
    )


def _table_section(table: Table, rows: Sequence[Checked]) -> Section:
    shown = [row for row in rows if row.table == table.name and row.basis in ("calibrated", "predicted")]
    is_time = shown[0].unit == "s"
    unit = "jobs an hour" if is_time else RATE
    made = [(row.nodes, _rate(row.predicted, is_time)) for row in shown]
    alone = made[0][1] / made[0][0]
    predicted = [{"nodes": n, "rate": rate, "ideal": alone * n} for n, rate in made]
    printed = [{"nodes": row.nodes, "rate": _rate(row.published, is_time)} for row in shown]
    return Section(
        title=table.name,
        text=f"{table.source}, {table.date}" + ("; jobs an hour, from the printed times" if is_time else ""),
        chart=scaling(f"{table.name}: rate by nodes", predicted, printed, unit=unit),
        table=PageTable(
            caption=table.name,
            headings=("nodes", "devices", "unit", "published", "predicted", "error", "basis"),
            rows=[
                (
                    str(row.nodes),
                    str(row.devices),
                    row.unit,
                    f"{row.published:,.2f}",
                    f"{row.predicted:,.2f}",
                    f"{row.error:+.1%}",
                    row.basis,
                )
                for row in shown
            ],
        ),
    )


def _rate(value: float, is_time: bool) -> float:
    """Convert a job's seconds to jobs per hour."""
    return 3600 / value if is_time else value
