"""What an SDK sends, caught before it leaves. As a program: what another environment's SDK sends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from slipway.jobs.estimators.sdk import installed_major, load_sdk
from slipway.jobs.estimators.training import SdkTraining, of_request

Sent = dict[str, Any]


class Caught(Exception):
    """The request was made, and goes nowhere."""


def caught(send: Callable[[], object]) -> Sent:
    """Return the CreateTrainingJob that `send` makes; every other call is a mistake of the test."""
    sent: Sent = {}

    def call(_: object, operation: str, request: Sent) -> None:
        assert operation == "CreateTrainingJob", operation
        sent.update(request)
        raise Caught

    with mock.patch("botocore.client.BaseClient._make_api_call", call):
        try:
            send()
        except Caught:
            return sent
    raise AssertionError("nothing was sent")


def sent_by_installed_sdk(training: SdkTraining) -> Sent:
    major = installed_major()
    estimator = load_sdk(major).build_estimator(training)
    return caught(
        lambda: estimator.fit(wait=False) if major == 2 else estimator.train(wait=False, logs=False)
    )


def leaves(value: object, where: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value of a request with its place."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{where}[{number}]")
    else:
        yield where, value


def differences(ours: Sent, theirs: Sent) -> dict[str, tuple[object, object]]:
    """Return what stands otherwise, by its place; None stands for what is absent."""
    one, other = dict(leaves(ours)), dict(leaves(theirs))
    return {
        where: (one.get(where), other.get(where))
        for where in sorted({*one, *other})
        if one.get(where) != other.get(where) or type(one.get(where)) is not type(other.get(where))
    }


if __name__ == "__main__":
    requests = json.load(sys.stdin)
    trainings = [of_request(create, region="us-east-1", bucket="bucket") for create in requests]
    print(json.dumps([sent_by_installed_sdk(training) for training in trainings]))
