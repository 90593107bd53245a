"""Asks AWS for today's prices of instances, from the Price List API and EC2's Spot prices. It changes
nothing.

Its answers are deeply nested: one product is one instance type in one region, with every offer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from slipway.jobs.cloud.aws import Unanswered, ask_all, no_answer, reader
from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.prices import ON_DEMAND, SPOT, Rate
from slipway.jobs.words.catalogue.instances import SAGEMAKER

_HOME = "us-east-1"  # the API has endpoints in three regions, for the prices of all
_TERMS = {"1yr": "1-year", "3yr": "3-year"}
_HOURS = {"1yr": 8760.0, "3yr": 3 * 8760.0}
_EC2 = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}


def ask_rates(
    names: Sequence[str], regions: Sequence[str], now: Callable[[str], None]
) -> tuple[list[Rate], list[str]]:
    """Ask AWS for the prices; return the rates, and a line for each that was not found."""
    client = reader("pricing", _HOME)
    found: list[Rate] = []
    missing: list[str] = []
    for region in regions:
        for name in names:
            now(f"{name} in {region}")
            rates = list(_rates(_products(client, name, region), name, region))
            found += rates
            if not any(rate.term == ON_DEMAND for rate in rates):
                missing.append(f"{name} in {region}")
    return found, missing


def _products(client: Any, name: str, region: str) -> list[Mapping[str, Any]]:
    if name.startswith(SAGEMAKER):
        service = "AmazonSageMaker"
        wanted = {"instanceName": name, "component": "Training", "regionCode": region}
    else:
        service, wanted = "AmazonEC2", {"instanceType": name, "regionCode": region, **_EC2}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    answer = _answered(ask_all(client, "GetProducts", "PriceList", ServiceCode=service, Filters=filters))
    return [json.loads(each) if isinstance(each, str) else each for each in answer]


def _answered(answer: Sequence[Any] | Unanswered) -> Sequence[Any]:
    if isinstance(answer, Unanswered):
        raise no_answer(answer, "try again later")
    return answer


def ask_spot_rates(names: Sequence[str], regions: Sequence[str]) -> tuple[list[Rate], list[str]]:
    """Ask AWS for current Spot prices; return the cheapest zone's of each region, and those without any."""
    found: list[Rate] = []
    missing: list[str] = []
    asked = [name for name in names if not name.startswith(SAGEMAKER)]
    for region in regions:
        best: dict[str, Rate] = {}
        wanted = {
            "InstanceTypes": asked,
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": datetime.now(UTC),
        }
        client = reader("ec2", region)
        for offer in _answered(ask_all(client, "DescribeSpotPriceHistory", "SpotPriceHistory", **wanted)):
            name, usd = str(offer["InstanceType"]), round(float(offer["SpotPrice"]), 6)
            if name in best and usd >= best[name].usd_per_hour:
                continue
            with suppress(CannotEstimate):  # it says no price, or none above 0
                best[name] = Rate(
                    instance_type=name,
                    region=region,
                    term=SPOT,
                    usd_per_hour=usd,
                    date=str(offer["Timestamp"])[:10],
                    source=f"EC2 DescribeSpotPriceHistory, zone {offer['AvailabilityZone']}, "
                    "the cheapest of the region's",
                )
        found += best.values()
        missing += [f"{name} in {region}" for name in asked if name not in best]
    return found, missing


def _rates(products: Sequence[Mapping[str, Any]], name: str, region: str) -> Iterator[Rate]:
    """Yield, for each term, the cheapest of its offers."""
    best: dict[str, Rate] = {}
    for product in products:
        for term, usd, words in _offers(product.get("terms", {})):
            if term in best and usd >= best[term].usd_per_hour:
                continue
            with suppress(CannotEstimate):  # no price above 0: the type is sold in another way
                best[term] = Rate(
                    instance_type=name,
                    region=region,
                    term=term,
                    usd_per_hour=round(usd, 6),
                    date=str(product.get("publicationDate", ""))[:10],
                    source=f"AWS Price List API, {words}",
                )
    yield from best.values()


def _offers(terms: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    for offer in terms.get("OnDemand", {}).values():
        yield ON_DEMAND, _dollars(offer, "Hrs"), "on demand"
    for offer in terms.get("Reserved", {}).values():
        said = offer.get("termAttributes", {})
        length = said.get("LeaseContractLength")
        if length in _TERMS and said.get("OfferingClass") == "standard":
            hourly, upfront = _dollars(offer, "Hrs"), _dollars(offer, "Quantity")
            words = f"reserved, standard, {said.get('PurchaseOption', '')}, upfront spread over the term"
            yield _TERMS[length], hourly + upfront / _HOURS[length], words


def _dollars(offer: Mapping[str, Any], unit: str) -> float:
    dimensions = offer.get("priceDimensions", {}).values()
    return sum(
        float(dimension["pricePerUnit"].get("USD", 0))
        for dimension in dimensions
        if dimension.get("unit") == unit
    )
