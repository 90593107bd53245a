"""One page of HTML that needs nothing else: its own style, drawn charts, tables, and no script.

The policy in its head lets a browser ask for nothing at all, whatever text a run's name or log may hold. A
further kind of content is one field of Section and its line in _section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from slipway.jobs.report.charts import Chart, drawn
from slipway.jobs.words.text import printable

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # its icon is empty, and in it


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
    drawing: str = ""  # SVG that is safe as it stands
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
    sections = "\n".join(_section(each, number) for number, each in enumerate(page.sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(page.title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
<h1>{_text(page.title)}</h1>
<p class="lead">{_text(page.lead)}</p>
{_facts(page.facts)}
{sections}
<h2>What the numbers rest on</h2>
{"".join(f'<p class="note">{_text(note)}</p>' for note in page.notes)}
</main>
</body>
</html>
"""


def _facts(facts: Sequence[Fact]) -> str:
    if not facts:
        return ""
    items = "".join(f"<li><b>{_text(fact.value)}</b><span>{_text(fact.what)}</span></li>" for fact in facts)
    return f'<ul class="facts">{items}</ul>'


def _section(section: Section, number: int) -> str:
    parts = [f"<h2>{_text(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{_text(section.text)}</p>")
    if section.chart is not None:
        caption = f"<figcaption>{_text(section.chart.description)}</figcaption>"
        parts.append(f"<figure>{drawn(section.chart, number)}{caption}</figure>")
    if section.drawing:
        parts.append(f"{_scrolled(section.drawing_label)}{section.drawing}</div>")
    if section.table is not None:
        parts.append(_table(section.table))
    return "<section>" + "\n".join(parts) + "</section>"


def _table(table: PageTable) -> str:
    head = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in table.headings)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"{_scrolled(table.caption)}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _scrolled(label: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}">'


def _text(text: str) -> str:
    return escape(printable(text))
