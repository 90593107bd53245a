"""What stands on the page of the published tables. Pure: the rows come in compared."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.jobs.estimate.evidence.published import TABLES, Checked, Table
from slipway.jobs.report.charts import RATE, scaling
from slipway.jobs.report.page import Fact, Page, PageTable, Section


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
    own = [row for row in rows if row.table == table.name and row.basis in ("calibrated", "predicted")]
    is_time = own[0].unit == "s"
    unit = "jobs an hour" if is_time else RATE
    made = [(row.nodes, _rate(row.predicted, is_time)) for row in own]
    alone = made[0][1] / made[0][0]
    predicted = [{"nodes": n, "rate": rate, "ideal": alone * n} for n, rate in made]
    printed = [{"nodes": row.nodes, "rate": _rate(row.published, is_time)} for row in own]
    return Section(
        title=table.name,
        text=f"{table.source}, {table.date}" + ("; jobs an hour, from the printed times" if is_time else ""),
        chart=scaling(f"{table.name}: rate by nodes", predicted, printed, unit=unit),
        table=PageTable(
            caption=table.name,
            headings=("nodes", "devices", "unit", "published", "predicted", "error", "basis"),
            rows=[_checked_row(row) for row in own],
        ),
    )


def _checked_row(own: Checked) -> tuple[str, ...]:
    published, predicted = f"{own.published:,.2f}", f"{own.predicted:,.2f}"
    return str(own.nodes), str(own.devices), own.unit, published, predicted, f"{own.error:+.1%}", own.basis


def _rate(value: float, is_time: bool) -> float:
    """Convert a job's seconds to jobs per hour."""
    return 3600 / value if is_time else value
