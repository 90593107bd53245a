"""Published rows confirm what the estimate says about its accuracy, and the articles' figures are met."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.estimate import throughput
from slipway.jobs.estimate.evidence.bands import (
    LEAST_ROWS,
    LEAST_TABLES,
    NEAR,
    Band,
    bands_of,
    encode_bands,
    held_by_accelerator,
    known_bands,
    left_out,
    widths,
)
from slipway.jobs.estimate.evidence.calibrations import WORDS
from slipway.jobs.estimate.evidence.nearest import other_rows
from slipway.jobs.estimate.evidence.published import Checked, check
from slipway.jobs.estimate.evidence.tables import TABLES
from slipway.jobs.estimate.evidence.trials import Trial, trials
from slipway.jobs.estimate.work.spread import (
    UNMEASURED_KINDS,
    WIDTHS,
    distance,
    nearness,
    origin_of,
    spread,
)
from slipway.jobs.words.catalogue.hardware import CPU, FAMILIES
from tests.architecture.tracked import ROOT


@cache  # not while tests are collected, which each worker does
def all_trials() -> tuple[Trial, ...]:
    return tuple(trials())


def trial(error: float, table: str = "a", word: str = "calibrated", device: str = "cuda") -> Trial:
    predicted = 100.0 * (1 + error)
    return Trial(
        word=word,
        device=device,
        accelerator="a100",
        table=table,
        published=100.0,
        predicted=predicted,
        spread=math.log(1.1),
    )


def held(found: Sequence[Trial]) -> float:
    return sum(each.is_held for each in found) / len(found)


def band_of(found: Sequence[Trial]) -> Band:
    return next(each for each in bands_of(found) if (each.word, each.device) == ("calibrated", "cuda"))


def test_the_bands_that_are_printed_are_those_that_the_published_rows_give() -> None:
    assert (ROOT / "jobs/estimate/evidence/bands.csv").read_text("utf-8") == encode_bands(
        bands_of(all_trials())
    )


def test_every_word_has_a_line_for_every_device() -> None:
    devices = {CPU, *(family.device for family in FAMILIES.values())}
    assert set(known_bands()) == {(word, device) for word in WORDS for device in devices}


def test_every_row_of_other_people_was_predicted_with_nothing_of_its_table_known() -> None:
    """Judge the rows again whose table has another row of the model, with that row known."""
    tables = {row.table for row in other_rows()}
    first = [each for each in all_trials() if each.table in tables][: len(other_rows())]
    assert [each.published for each in first] == [row.sequences_per_second for row in other_rows()]
    assert len(all_trials()) > len(first)


def test_nine_of_ten_rows_lie_in_the_range_that_was_told_without_their_own_table() -> None:
    """Judge all rows, and each word for which more than a handful of tables have rows."""
    assert held(all_trials()) >= 0.9
    for word in ("calibrated", "predicted"):
        assert held([each for each in all_trials() if each.word == word]) >= 0.9


def test_a_range_is_as_wide_as_the_tables_errors_make_it_and_no_wider() -> None:
    assert {name: math.ceil(100 * width) / 100 for name, width in widths(all_trials()).items()} == WIDTHS
    judged = left_out(all_trials())
    assert judged.rows == len(all_trials())
    assert 0.85 <= judged.held / judged.rows <= 0.95
    assert 0.85 <= judged.held_of_a_table <= 0.95
    assert 0.85 <= held(all_trials()) <= 0.95


def test_each_accelerator_with_twenty_rows_has_a_range_that_holds_about_nine_of_ten() -> None:
    counts = held_by_accelerator(all_trials())
    assert set(counts) == {"a100", "gaudi", "h100", "h100-fp8"}
    for own, rows in counts.values():
        assert 0.88 <= own / rows <= 0.95


def test_an_accelerator_with_few_rows_or_tables_has_the_width_of_all() -> None:
    few = [trial(number / 100, table=f"table {number % 4}") for number in range(19)]
    two = [trial(number / 100, table=f"table {number % 2}") for number in range(40)]
    assert set(widths(few)) == set(widths(two)) == {""}
    assert set(widths([*few, trial(0.3)])) == {"", "a100"}


def test_the_published_rows_are_met_as_near_as_the_page_says() -> None:
    errors = sorted(abs(each.error) for each in all_trials())
    assert sum(errors) / len(errors) <= 0.07
    assert median(errors) <= 0.04
    assert errors[math.ceil(0.9 * len(errors)) - 1] <= 0.16


def test_what_nobody_measured_has_a_range_that_is_wider_by_a_stated_factor() -> None:
    row = next(each for each in other_rows() if each.asked.layout.sharding == "fsdp")
    of, origin = row.asked, origin_of(row.asked.model, row.asked.cluster, row.asked.layout)
    dense = spread(of.model, of.cluster, of.layout, origin)
    for kind, factor in UNMEASURED_KINDS.items():
        changed: dict[str, object] = {"trained_share": 0.01} if kind == "adapters" else {"kind": kind}
        model = replace(of.model, **changed)  # type: ignore[arg-type]
        wider = spread(model, of.cluster, of.layout, origin)
        assert math.exp(wider - dense) == pytest.approx(factor)
        assert f"having no {kind}" in nearness(model, of.layout, origin)
        own = origin_of(model, of.cluster, of.layout)
        assert spread(model, of.cluster, of.layout, own) == pytest.approx(dense)


def test_the_ranges_are_no_wider_than_they_have_to_be() -> None:
    """A range that always holds would say nothing."""
    told = {word: median(each.spread for each in all_trials() if each.word == word) for word in WORDS}
    assert told["calibrated"] < math.log(1.35)
    assert told["predicted"] < math.log(1.6)


def test_an_accelerator_that_nobody_measured_has_a_wider_range_that_holds() -> None:
    """Every row, estimated as if its accelerator had no row and no prior."""
    kept = []
    for row in other_rows():
        asked = row.asked
        low, high = throughput(
            asked.model, replace(asked.cluster, accelerator="nobody's"), asked.layout
        ).interval
        kept.append(low <= row.sequences_per_second <= high)
    assert sum(kept) / len(kept) >= 0.9


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden_size": 1024},
        {"sequence_length": 8192},
        {"devices": 8},
        {"tokens": 64},
        {"is_sharded": False},
        {"checkpointing": "selective"},
        {"tensor": 8},
        {"pipeline": 4},
        {"causal": False},
        {"is_own": False},
    ],
)
def test_a_range_widens_with_each_thing_that_sets_a_measurement_apart(changed: dict[str, object]) -> None:
    row = next(each for each in other_rows() if each.asked.layout.sharding == "fsdp")
    of = row.asked
    near = origin_of(of.model, of.cluster, of.layout)
    far = replace(near, **changed)  # type: ignore[arg-type]
    assert distance(of.model, of.cluster, of.layout, far) > distance(of.model, of.cluster, of.layout, near)


@pytest.mark.parametrize(
    ("rows", "tables"),
    [(0, 1), (1, 1), (LEAST_ROWS - 1, LEAST_TABLES), (100, LEAST_TABLES - 1)],
)
def test_too_few_rows_or_tables_give_no_band_and_say_so(rows: int, tables: int) -> None:
    band = band_of([trial(0.01, table=f"table {number % tables}") for number in range(rows)])
    assert band.within is None
    assert "nine of ten" not in band.words


def test_a_band_says_how_many_rows_it_stands_on() -> None:
    band = band_of([trial(number / 100, table=f"table {number % 4}") for number in range(20)])
    assert band.words == (
        "11 of 20 published rows of 4 tables lay in the range that was told without their own table, "
        f"± 10% in the median; nine of ten were within ± 18%, {band.near} of 20 within ± 6%"
    )


@given(st.lists(st.floats(-0.9, 5), min_size=LEAST_ROWS, max_size=60))
def test_a_band_holds_at_least_nine_of_ten_of_any_rows(errors: list[float]) -> None:
    found = [trial(error, table=f"table {number % LEAST_TABLES}") for number, error in enumerate(errors)]
    band = band_of(found)
    assert band.within is not None
    assert sum(abs(each.error) <= band.within for each in found) >= 0.9 * len(found)
    assert band.near == sum(abs(each.error) <= NEAR for each in found)


# The articles' tables, which the project promises to reproduce.
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
