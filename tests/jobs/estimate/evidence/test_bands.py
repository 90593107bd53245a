"""What the estimate says of its accuracy comes out of published rows; no table vouches for itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.jobs.catalogue.accelerators import CPU, FAMILIES
from slipway.jobs.estimate.evidence.bands import (
    LEAST_ROWS,
    LEAST_TABLES,
    NEAR,
    Band,
    bands_of,
    encode_bands,
    find_band,
    known_bands,
)
from slipway.jobs.estimate.evidence.calibrations import WORDS
from slipway.jobs.estimate.evidence.other_rows import other_rows
from slipway.jobs.estimate.evidence.trials import Trial, trials
from tests.architecture.tracked import ROOT

FOUND = tuple(trials())


def trial(error: float, table: str = "a", word: str = "calibrated", device: str = "cuda") -> Trial:
    return Trial(word=word, device=device, table=table, published=100.0, predicted=100.0 * (1 + error))


def band_of(found: Sequence[Trial]) -> Band:
    return next(each for each in bands_of(found) if (each.word, each.device) == ("calibrated", "cuda"))


def test_the_bands_that_are_printed_are_those_that_the_published_rows_give() -> None:
    assert (ROOT / "jobs/estimate/evidence/bands.csv").read_text("utf-8") == encode_bands(bands_of(FOUND))


def test_every_word_has_a_line_for_every_device() -> None:
    devices = {CPU, *(family.device for family in FAMILIES.values())}
    assert set(known_bands()) == {(word, device) for word in WORDS for device in devices}


def test_every_row_of_other_people_was_predicted_with_nothing_of_its_table_known() -> None:
    """And again, those whose table has another row of the model, with that one known."""
    tables = {row.table for row in other_rows()}
    first = [each for each in FOUND if each.table in tables][: len(other_rows())]
    assert [each.published for each in first] == [row.sequences_per_second for row in other_rows()]
    assert len(FOUND) > len(first)


def test_bands_hold_nearly_nine_of_ten_rows_whose_table_had_no_say_in_them() -> None:
    judged = [band for band in bands_of(FOUND) if band.judged]
    assert judged
    assert sum(band.held for band in judged) / sum(band.judged for band in judged) >= 0.87


def test_nine_of_ten_is_never_said_of_fewer() -> None:
    for band in bands_of(FOUND):
        if band.within is not None:
            own = [each for each in FOUND if (each.word, each.device) == (band.word, band.device)]
            assert sum(abs(each.error) <= band.within for each in own) / len(own) >= 0.9


@pytest.mark.parametrize(
    ("rows", "tables"),
    [(0, 1), (1, 1), (LEAST_ROWS - 1, LEAST_TABLES), (100, LEAST_TABLES - 1)],
)
def test_too_few_rows_or_tables_give_no_band_and_say_so(rows: int, tables: int) -> None:
    band = band_of([trial(0.01, table=f"table {number % tables}") for number in range(rows)])
    assert band.within is None
    assert band.words.startswith("no band: ")


def test_a_band_says_how_many_rows_it_stands_on() -> None:
    band = band_of([trial(number / 100, table=f"table {number % 4}") for number in range(20)])
    assert band.words == (
        "nine of ten of 20 published rows of 4 tables were within ± 18%, "
        f"{band.near} of 20 within ± 6%; "
        f"with a row's own table left out of the band, {band.held} of 20 were in it"
    )


def test_a_table_that_is_far_off_is_not_held_by_its_own_rows() -> None:
    near = [trial(0.01, table=f"table {number % 5}") for number in range(50)]
    far = [trial(0.5, table="far") for _ in range(50)]
    band = band_of([*near, *far])
    assert band.within == 0.5
    assert (band.judged, band.held) == (100, 50)


@given(st.lists(st.floats(-0.9, 5), min_size=LEAST_ROWS, max_size=60))
def test_a_band_holds_at_least_nine_of_ten_of_any_rows(errors: list[float]) -> None:
    found = [trial(error, table=f"table {number % LEAST_TABLES}") for number, error in enumerate(errors)]
    band = band_of(found)
    assert band.within is not None
    assert sum(abs(each.error) <= band.within for each in found) >= 0.9 * len(found)
    assert band.near == sum(abs(each.error) <= NEAR for each in found)


def test_what_was_promised_once_is_not_promised_where_it_did_not_hold() -> None:
    """Measured ± 4 %, calibrated ± 6 % and predicted ± 17 % were said of every device."""
    once = {"measured": 0.04, "calibrated": 0.06, "predicted": 0.17}
    for band in bands_of(FOUND):
        own = [each for each in FOUND if (each.word, each.device) == (band.word, band.device)]
        inside = sum(abs(each.error) <= once[band.word] for each in own)
        if own and inside / len(own) < 0.9:
            told = find_band(band.word, band.device).within
            assert told is None or told > once[band.word]
