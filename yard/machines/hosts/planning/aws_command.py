"""A small `aws` for hosts that have this machine's files: enough of AWS's CLI for the scripts in infra/boot.

Our AMIs have the real one (infra/boot/steps.sh). A checkout has none, and without it a host could
report nothing to CloudWatch. Every operation works whose arguments are plain values or JSON; shortcuts that
AWS's CLI adds to an operation are rows of _SHORT_FORMS.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from botocore import xform_name

from slipway.jobs.cloud import aws

USAGE_CODE = 252  # AWS CLI user guide, "Return codes"
_FAILED_CODE = 254
_READ: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: text in ("", "true"),
}


class WrongUse(Exception):
    """Says why the command line cannot be understood."""


def main(words: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if words is None else words
    try:
        answer = _call(given)
    except WrongUse as error:
        print(f"aws: {error}; the yard's aws knows operations and their arguments alone", file=sys.stderr)
        return USAGE_CODE
    except Exception as error:  # botocore's errors have no common base
        if not type(error).__module__.startswith("botocore"):
            raise
        print(f"aws: {error}", file=sys.stderr)
        return _FAILED_CODE
    answer.pop("ResponseMetadata", None)
    if answer:
        print(json.dumps(answer, default=str, indent=4))
    return 0


def _call(words: Sequence[str]) -> dict[str, Any]:
    if len(words) < 2:
        raise WrongUse("say a service and an operation")
    service, operation, *rest = words
    if (service, operation) == ("s3", "cp"):
        return _copy(rest)
    flags = dict(_flags(rest))
    client = aws.client(service, flags.pop("region", None))
    method = operation.replace("-", "_")
    if method not in client.meta.method_to_api_mapping:
        raise WrongUse(f"{service} has no {operation}")
    if short := _SHORT_FORMS.get((service, operation)):
        flags = short(flags)
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    members = {xform_name(name, "-"): (name, shape) for name, shape in model.input_shape.members.items()}
    if unknown := [name for name in flags if name not in members]:
        raise WrongUse(f"{operation} has no --{unknown[0]}")
    sent = {
        members[name][0]: _READ.get(members[name][1].type_name, json.loads)(text)
        for name, text in flags.items()
    }
    return dict(getattr(client, method)(**sent))


def _copy(words: Sequence[str]) -> dict[str, Any]:
    """Download one object (AWS CLI command reference, "s3 cp"); no other direction is supported."""
    *flags, source, target = words
    region = dict(_flags(word for word in flags if word != "--only-show-errors")).get("region")
    bucket, _, key = source.removeprefix("s3://").partition("/")
    if bucket == source or not key:
        raise WrongUse(f"'{source}' is no object of S3")
    aws.client("s3", region).download_file(bucket, key, target)
    return {}


def _flags(words: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield each flag with its value; "" for a switch, which has none."""
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            if name:
                yield name, ""
            name = word[2:]
        elif name is None:
            raise WrongUse(f"'{word}' follows no name")
        else:
            yield name, word
            name = None
    if name:
        yield name, ""


def _one_metric(flags: Mapping[str, str]) -> dict[str, str]:
    """Read the flags for a single value (AWS CLI command reference, "put-metric-data")."""
    if "metric-name" not in flags:
        return dict(flags)
    others = {
        name: flags[name] for name in flags if name not in ("metric-name", "value", "unit", "dimensions")
    }
    pairs = (pair.partition("=") for pair in flags.get("dimensions", "").split(",") if pair)
    datum = {
        "MetricName": flags["metric-name"],
        "Value": float(flags["value"]),
        "Unit": flags.get("unit", "None"),
        "Dimensions": [{"Name": name, "Value": value} for name, _, value in pairs],
    }
    return {**others, "metric-data": json.dumps([datum])}


_SHORT_FORMS: Mapping[tuple[str, str], Callable[[Mapping[str, str]], dict[str, str]]] = {
    ("cloudwatch", "put-metric-data"): _one_metric,
}

if __name__ == "__main__":
    sys.exit(main())
