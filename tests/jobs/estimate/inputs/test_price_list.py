"""What AWS's price list says, and what is kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.jobs.estimate.inputs.price_list import ask_rates
from slipway.jobs.estimate.prices import decode_rates
from slipway.jobs.words.catalogue.instances import training_types
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.jobs.conftest import Slipway
from tests.yard.conftest import RunningYard


@pytest.fixture(autouse=True)
def nothing_of_my_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


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
    code, out, err = slipway("instance", "refresh-prices", "--type", "dl1.24xlarge", "--type", "p5e.48xlarge")
    assert (code, out) == (0, "")
    file = tmp_path / "slipway" / "prices-refreshed.csv"
    assert f"1 prices written to {file}" in err
    assert "AWS lists no price of p5e.48xlarge in us-east-1" in err
    (rate,) = decode_rates(file.read_text(), str(file))
    assert (rate.usd_per_hour, rate.region, rate.term) == (13.10904, "us-east-1", "on-demand")
    assert rate.date
    rows = json.loads(slipway("instance", "prices", "--json")[1])
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
    code, out, err = slipway("instance", "refresh-prices", "--type", "dl1.24xlarge")
    assert (code, out) == (1, "")
    assert "pricing:GetProducts gave no answer: EndpointConnectionError" in err
    assert not list(tmp_path.rglob("*.csv"))


def test_spot_prices_of_the_account_are_kept_and_estimates_use_them(
    yard_shell: RunningYard, slipway: Slipway, tmp_path: Path
) -> None:
    """The yard's Spot price is moto's, the same for every type; the way in is that of AWS."""
    code, _, err = slipway(
        "instance", "refresh-prices", "--spot", "--type", "p4d.24xlarge", "--type", "p3.16xlarge"
    )
    assert code == 0, err
    assert "AWS lists no Spot price of p3.16xlarge in us-east-1" in err
    file = tmp_path / "slipway" / "prices-refreshed.csv"
    (rate,) = decode_rates(file.read_text(), str(file))
    assert (rate.instance_type, rate.region, rate.term) == ("p4d.24xlarge", "us-east-1", "spot")
    assert "zone us-east-1" in rate.source
    asked = ("estimate", "bert-large", "--on", "p4d.24xlarge", "--nodes", "1", "--term", "spot", "--json")
    (row,) = json.loads(slipway(*asked)[1])
    assert row["price"]["usd_per_hour"] == rate.usd_per_hour
