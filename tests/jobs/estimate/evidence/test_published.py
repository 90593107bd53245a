"""The articles' tables: what the project promises to reproduce."""

from __future__ import annotations

from collections import defaultdict

import pytest

from slipway.jobs.estimate.evidence.published import Checked, check
from slipway.jobs.estimate.evidence.tables import TABLES

ROWS = tuple(check())


def name_of(row: Checked) -> str:
    return f"{row.table} on {row.nodes} nodes, {row.basis}, {row.unit}"


@pytest.mark.parametrize("row", [row for row in ROWS if row.limit is not None], ids=name_of)
def test_a_published_row_is_met_within_its_limit(row: Checked) -> None:
    assert row.passes, f"{row.predicted:g} against {row.published:g}"


def test_every_row_is_compared_and_only_those_that_gave_a_number_are_let_off() -> None:
    by_table = defaultdict(set)
    for row in ROWS:
        if row.basis in ("calibrated", "predicted"):
            by_table[row.table].add((row.nodes, row.basis))
    for table in TABLES.values():
        compared = {nodes for nodes, _ in by_table[table.name]}
        let_off = [nodes for nodes, basis in by_table[table.name] if basis == "calibrated"]
        assert compared == {row.nodes for row in table.rows}
        assert len(let_off) == (1 if table.peer else 2)


def test_tokens_per_dollar_are_exact_to_the_unit() -> None:
    dollars = [row for row in ROWS if row.unit == "tokens/$"]
    assert len(dollars) == 7
    assert all(row.predicted == row.published for row in dollars)


def test_a_peer_is_another_table_of_the_same_instance_type() -> None:
    for table in TABLES.values():
        if table.peer:
            peer = TABLES[table.peer]
            assert peer is not table
            assert peer.instance == table.instance
