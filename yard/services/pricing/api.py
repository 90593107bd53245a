"""The price list: what an instance type costs on demand, from the catalogue, and only where it knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slipway.jobs.catalogue.instances import InstanceType, Price, instance_types
from slipway.yard.errors import ApiError
from slipway.yard.services.recorded import page
from slipway.yard.services.registry import not_emulated

SERVICE = "AmazonEC2"
TERM = "JRTCKXETXF"  # the price list's code of "on demand"
UNIT = "6YS6EN2CT7"  # and of "per hour"

Parameters = Mapping[str, Any]


def call(operation: str, parameters: Parameters, _region: str) -> dict[str, Any]:
    if operation != "GetProducts":
        raise not_emulated("pricing", operation)
    if parameters["ServiceCode"] != SERVICE:
        raise not_emulated("pricing", operation, f"of {parameters['ServiceCode']}; it knows {SERVICE}")
    wanted = {condition["Field"]: condition["Value"] for condition in parameters.get("Filters", [])}
    priced = [(known, known.price) for known in instance_types() if known.price]
    products = [
        _product(known, price) for known, price in priced if _matches(_attributes(known, price), wanted)
    ]
    asked = {"nextToken": parameters.get("NextToken"), "maxResults": parameters.get("MaxResults")}
    shown, more = page(products, asked)
    next_page = {"NextToken": more["nextToken"]} if more else {}
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product) for product in shown], **next_page}


def _matches(attributes: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    if unknown := sorted(set(wanted) - set(attributes)):
        raise ApiError(
            "InvalidParameterException",
            f"its prices have no field {', '.join(unknown)}; they have {', '.join(sorted(attributes))}",
        )
    return all(attributes[field] == value for field, value in wanted.items())


def _attributes(known: InstanceType, price: Price) -> dict[str, str]:
    return {
        "servicecode": SERVICE,
        "instanceType": known.name,
        "regionCode": price.region,
        "vcpu": str(known.vcpus),
        "memory": f"{known.memory_gib} GiB",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "licenseModel": "No License required",
        "locationType": "AWS Region",
        "marketoption": "OnDemand",
    }


def _product(known: InstanceType, price: Price) -> dict[str, Any]:
    sku = known.name.replace(".", "-").upper()
    term = f"{sku}.{TERM}"
    dimension = {
        "unit": "Hrs",
        "description": f"${price.usd_per_hour} per {known.name} hour, Linux, on demand; {price.source}",
        "beginRange": "0",
        "endRange": "Inf",
        "rateCode": f"{term}.{UNIT}",
        "appliesTo": [],
        "pricePerUnit": {"USD": f"{price.usd_per_hour:.10f}"},
    }
    offer = {
        "sku": sku,
        "offerTermCode": TERM,
        "effectiveDate": f"{price.date}T00:00:00Z",
        "priceDimensions": {dimension["rateCode"]: dimension},
        "termAttributes": {},
    }
    return {
        "product": {"productFamily": "Compute Instance", "attributes": _attributes(known, price), "sku": sku},
        "serviceCode": SERVICE,
        "terms": {"OnDemand": {term: offer}},
        "version": price.date,
        "publicationDate": f"{price.date}T00:00:00Z",
    }


def operations() -> frozenset[str]:
    """List what it answers; the rest is refused."""
    return frozenset({"GetProducts"})
