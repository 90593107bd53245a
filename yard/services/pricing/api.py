"""The price list: the On-Demand price of an instance type, if the catalogue knows it.

To add a service: a row of LISTS. SageMaker's products have only the fields by which users filter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slipway.jobs.words.catalogue.instances import InstanceType, Price, instance_types, training_types
from slipway.yard.errors import ApiError, not_emulated
from slipway.yard.services.recorded import paged

TERM = "JRTCKXETXF"  # the price list's code for On-Demand
UNIT = "6YS6EN2CT7"  # its code for "per hour"

Parameters = Mapping[str, Any]
Types = Callable[[], tuple[InstanceType, ...]]
Fields = Callable[[InstanceType, Price], dict[str, str]]


def _get_products(parameters: Parameters, _region: str) -> dict[str, Any]:
    service = parameters["ServiceCode"]
    if service not in LISTS:
        raise not_emulated("pricing", "GetProducts", f"of {service}; it knows {', '.join(LISTS)}")
    types, family, fields = LISTS[service]
    wanted = {condition["Field"]: condition["Value"] for condition in parameters.get("Filters", [])}
    products = [
        _product(service, family, known, price, attributes)
        for known in types()
        if (price := known.price)
        and _matches(attributes := {"servicecode": service, **fields(known, price)}, wanted)
    ]
    answer = paged("PriceList", products, parameters, asked=("NextToken", "MaxResults"))
    encoded = [json.dumps(product) for product in answer["PriceList"]]
    return {"FormatVersion": "aws_v1", **answer, "PriceList": encoded}


def _matches(attributes: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    if unknown := sorted(set(wanted) - set(attributes)):
        raise ApiError(
            "InvalidParameterException",
            f"its prices have no field {', '.join(unknown)}; they have {', '.join(sorted(attributes))}",
        )
    return all(attributes[field] == value for field, value in wanted.items())


def _of_ec2(known: InstanceType, price: Price) -> dict[str, str]:
    return {
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


def _of_training(known: InstanceType, price: Price) -> dict[str, str]:
    return {
        "instanceName": known.name,
        "component": "Training",
        "regionCode": price.region,
        "locationType": "AWS Region",
    }


LISTS: Mapping[str, tuple[Types, str, Fields]] = {
    "AmazonEC2": (instance_types, "Compute Instance", _of_ec2),
    "AmazonSageMaker": (training_types, "ML Instance", _of_training),
}


def _product(
    service: str, family: str, known: InstanceType, price: Price, attributes: Mapping[str, str]
) -> dict[str, Any]:
    sku = known.name.replace(".", "-").upper()
    term = f"{sku}.{TERM}"
    dimension = {
        "unit": "Hrs",
        "description": f"${price.usd_per_hour} per {known.name} hour, on demand; {price.source}",
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
        "product": {"productFamily": family, "attributes": dict(attributes), "sku": sku},
        "serviceCode": service,
        "terms": {"OnDemand": {term: offer}},
        "version": price.date,
        "publicationDate": f"{price.date}T00:00:00Z",
    }


OPERATIONS: Mapping[str, Callable[[Parameters, str], dict[str, Any]]] = {"GetProducts": _get_products}
