"""Catches what an SDK sends; as a program, what another environment's SDK sends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any
from unittest import mock

from slipway.jobs.submit.estimators.sdk import installed_major, load_sdk
from slipway.jobs.submit.estimators.training import SdkTraining, of_request
from slipway.jobs.words.targets import SageMakerTarget, decode_target

Sent = dict[str, Any]


class Caught(Exception):
    """Stops a request after it was made."""


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


def said_at_ctrl_c(training: SdkTraining) -> str:
    """Return what is printed when a user interrupts the wait for a created job."""

    begun = {
        "TrainingJobName": training.name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{training.name}",
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Starting",
        "ResourceConfig": training.create["ResourceConfig"],
    }

    def call(_: object, operation: str, _request: Sent) -> Sent:
        if operation in ("CreateTrainingJob", "DescribeTrainingJob"):
            return begun
        raise KeyboardInterrupt

    said = io.StringIO()
    estimator = load_sdk(installed_major()).build_estimator(training)
    calls, pauses = mock.patch("botocore.client.BaseClient._make_api_call", call), mock.patch("time.sleep")
    with calls, pauses, redirect_stdout(said):
        try:
            (estimator.fit if hasattr(estimator, "fit") else estimator.train)()
        except KeyboardInterrupt:
            return said.getvalue()
    raise AssertionError("the interruption went nowhere")


def leaves(value: object, where: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value of a request with its path."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{where}.{name}" if where else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{where}[{number}]")
    else:
        yield where, value


def differences(ours: Sent, theirs: Sent) -> dict[str, tuple[object, object]]:
    """Return the differences by path; None stands for an absent value."""
    one, other = dict(leaves(ours)), dict(leaves(theirs))
    return {
        where: (one.get(where), other.get(where))
        for where in sorted({*one, *other})
        if one.get(where) != other.get(where) or type(one.get(where)) is not type(other.get(where))
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    target = decode_target(given["target"], parameter="stdin")
    assert isinstance(target, SageMakerTarget)
    trainings = [of_request(create, target) for create in given["requests"]]
    sent = [sent_by_installed_sdk(training) for training in trainings]
    print(json.dumps({"sent": sent, "said_at_ctrl_c": said_at_ctrl_c(trainings[0])}))
