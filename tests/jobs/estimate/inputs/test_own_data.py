"""The user's own files: whole or not at all, and every mistake by name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.estimate.evidence.measurements import encode_measurements, our_measurements
from slipway.jobs.estimate.inputs.own_data import (
    CALIBRATION,
    PRICES,
    Unreadable,
    measurements,
    own_measurements,
    own_path,
    own_rates,
    update,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_without_a_file_there_is_nothing_of_the_user_s() -> None:
    assert own_measurements() == ()
    assert own_rates() == ()


def test_what_is_written_takes_the_place_of_the_whole_file_and_leaves_nothing_behind(home: Path) -> None:
    update(PRICES, lambda _: "one\n")
    assert update(PRICES, lambda old: old + "two\n").read_text() == "one\ntwo\n"
    assert sorted(each.name for each in (home / "slipway").iterdir()) == [".prices.csv.lock", "prices.csv"]


def test_a_change_that_fails_leaves_the_file_as_it_was(home: Path) -> None:
    update(PRICES, lambda _: "one\n")

    def fail(_: str) -> str:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - the change's own
        update(PRICES, fail)
    assert own_path(PRICES).read_text() == "one\n"


def test_text_that_cannot_be_written_leaves_the_file_as_it_was(home: Path) -> None:
    update(PRICES, lambda _: "one\n")
    with pytest.raises(UnicodeEncodeError):
        update(PRICES, lambda _: "half a character: \udc80")
    assert own_path(PRICES).read_text() == "one\n"
    assert sorted(each.name for each in (home / "slipway").iterdir()) == [".prices.csv.lock", "prices.csv"]


def test_a_variable_that_names_no_file_is_told(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("SLIPWAY_CALIBRATION", str(home / "gone.csv"))
    with pytest.raises(Unreadable, match=r"SLIPWAY_CALIBRATION names .*gone\.csv, which is not there"):
        own_measurements()


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x00" * 40_000_000], ids=["no text", "too large"])
def test_what_cannot_be_read_is_told(home: Path, data: bytes) -> None:
    path = own_path(CALIBRATION)
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=r"calibration\.csv (is not UTF-8|has 40000000 bytes)"):
        own_measurements()


def test_a_folder_in_its_place_is_told(home: Path) -> None:
    own_path(PRICES).mkdir(parents=True)
    with pytest.raises(Unreadable, match="is a folder, and must be a regular file"):
        own_rates()


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_variable_that_names_no_regular_file_is_told_at_once(
    kind: str, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    os.mkfifo(home / "FIFO")
    (home / "device").symlink_to("/dev/zero")
    monkeypatch.setenv("SLIPWAY_PRICES", str(home / kind))
    monkeypatch.setenv("SLIPWAY_CALIBRATION", str(home / kind))
    for read in (own_rates, own_measurements):
        with pytest.raises(Unreadable, match=f"{kind} is a {kind}, and must be a regular file"):
            read()


def test_a_run_is_never_judged_by_what_it_taught_itself(home: Path) -> None:
    taught = [replace(row, source="slipway calibrate, 60 steps of run-7") for row in our_measurements()[:1]]
    update(CALIBRATION, lambda _: encode_measurements(taught))
    assert taught[0] in measurements()
    assert taught[0] not in measurements(without_run="run-7")
    assert set(measurements(without_run="run-7")) == set(our_measurements())
    assert taught[0] in measurements(without_run="run-8")
