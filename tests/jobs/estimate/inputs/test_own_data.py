"""A user's own files are taken as a whole or refused with every mistake; AWS's price lists are read."""

from __future__ import annotations

import json
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
from slipway.jobs.estimate.inputs.price_list import ask_rates
from slipway.jobs.estimate.prices import decode_rates
from slipway.jobs.words.catalogue.instances import training_types
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard


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
    name = taught[0].name
    assert taught[0] not in measurements(without_run=(name, "run-7"))
    assert set(measurements(without_run=(name, "run-7"))) == set(our_measurements())
    assert taught[0] in measurements(without_run=(name, "run-8"))
    assert taught[0] in measurements(without_run=("another job", "run-7"))  # of another Slurm cluster


# Which parts of AWS's price list are kept.


def term(unit: str, usd: float, **attributes: str) -> dict[str, object]:
    dimension = {"unit": unit, "pricePerUnit": {"USD": str(usd)}}
    return {"priceDimensions": {"a": dimension}, "termAttributes": attributes}


def reserved(years: int, hourly: float, upfront: float, **attributes: str) -> dict[str, object]:
    dimensions = {
        "a": {"unit": "Hrs", "pricePerUnit": {"USD": str(hourly)}},
        "b": {"unit": "Quantity", "pricePerUnit": {"USD": str(upfront)}},
    }
    said = {"LeaseContractLength": f"{years}yr", "OfferingClass": "standard", "PurchaseOption": "Some"}
    return {"priceDimensions": dimensions, "termAttributes": said | attributes}


def test_refreshing_keeps_what_the_list_says_and_estimates_use_it(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    err = slipway.refused(
        "instance", "refresh-prices", "--type", "dl1.24xlarge", "--type", "p5e.48xlarge", code=0
    )
    file = tmp_path / "slipway" / "prices-refreshed.csv"
    assert f"1 prices written to {file}" in err
    assert "AWS lists no price of p5e.48xlarge in us-east-1" in err
    (rate,) = decode_rates(file.read_text(), str(file))
    assert (rate.usd_per_hour, rate.region, rate.term) == (13.10904, "us-east-1", "on-demand")
    assert rate.date
    rows = slipway.json("instance", "prices", "--json")
    assert next(row for row in rows if row["instance_type"] == "dl1.24xlarge")["written"] == str(file)


def test_refreshing_one_type_leaves_the_others_as_they_were(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    slipway("instance", "refresh-prices", "--type", "dl1.24xlarge")
    slipway("instance", "refresh-prices", "--type", "p5.48xlarge")
    file = tmp_path / "slipway" / "prices-refreshed.csv"
    assert [rate.instance_type for rate in decode_rates(file.read_text(), "x")] == [
        "dl1.24xlarge",
        "p5.48xlarge",
    ]


def test_a_training_type_has_the_price_of_sagemakers_own_list(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    slipway("instance", "refresh-prices", "--type", "ml.p4d.24xlarge", "--region", "us-west-2")
    (rate,) = decode_rates((tmp_path / "slipway" / "prices-refreshed.csv").read_text(), "x")
    assert (rate.instance_type, rate.region) == ("ml.p4d.24xlarge", "us-west-2")
    (known,) = (kind.price for kind in training_types() if kind.name == rate.instance_type)
    assert known is not None
    assert rate.usd_per_hour == known.usd_per_hour


def test_upfront_payments_are_spread_over_the_term_and_the_cheapest_offer_holds(
    yard_shell: RunningYard,
) -> None:
    product = {
        "publicationDate": "2026-08-01T00:00:00Z",
        "terms": {
            "OnDemand": {"a": term("Hrs", 20.0)},
            "Reserved": {
                "none": reserved(1, 13.0, 0.0),
                "all": reserved(1, 0.0, 8760 * 12.0),
                "convertible": reserved(1, 1.0, 0.0, OfferingClass="convertible"),
                "three": reserved(3, 2.0, 3 * 8760 * 5.59),
            },
        },
    }
    body = [{"FormatVersion": "aws_v1", "PriceList": [json.dumps(product)]}]
    fault = Fault(service="pricing", operation="GetProducts", kind=FaultKind.RESPOND, body=body, times=None)
    script(yard_shell, fault)
    try:
        found, missing = ask_rates(["trn1.32xlarge"], ["us-east-1"], lambda _: None)
    finally:
        unscript(yard_shell)
    assert missing == []
    assert {rate.term: rate.usd_per_hour for rate in found} == {
        "on-demand": 20.0,
        "1-year": 12.0,
        "3-year": 7.59,
    }
    assert {rate.date for rate in found} == {"2026-08-01"}


def test_a_list_that_gives_no_answer_changes_nothing(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    from slipway.jobs.cloud import aws

    aws.reader.cache_clear()
    err = slipway.refused("instance", "refresh-prices", "--type", "dl1.24xlarge")
    assert "pricing:GetProducts gave no answer: EndpointConnectionError" in err
    assert not list(tmp_path.rglob("*.csv"))


def test_spot_prices_of_the_account_are_kept_and_estimates_use_them(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    """The yard's Spot price is moto's, the same for every type; it is asked for as on AWS."""
    err = slipway.told(
        "instance", "refresh-prices", "--spot", "--type", "p4d.24xlarge", "--type", "p3.16xlarge"
    )
    assert "AWS lists no Spot price of p3.16xlarge in us-east-1" in err
    file = tmp_path / "slipway" / "prices-refreshed.csv"
    (rate,) = decode_rates(file.read_text(), str(file))
    assert (rate.instance_type, rate.region, rate.term) == ("p4d.24xlarge", "us-east-1", "spot")
    assert "zone us-east-1" in rate.source
    asked = ("estimate", "bert-large", "--on", "p4d.24xlarge", "--nodes", "1", "--term", "spot", "--json")
    (row,) = slipway.json(*asked)
    assert row["price"]["usd_per_hour"] == rate.usd_per_hour
