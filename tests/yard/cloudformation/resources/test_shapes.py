"""The two translations between a template's words and an API's."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.yard.cloudformation.resources.scope import input_shape
from slipway.yard.cloudformation.resources.shapes import like, to_request
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.world import World


@pytest.mark.parametrize(
    ("service", "operation", "properties", "request_"),
    [
        ("batch", "create_job_queue", {"Priority": "5"}, {"priority": 5}),
        (
            "kms",
            "create_key",
            {"Tags": [{"Key": "a", "Value": "b"}]},
            {"Tags": [{"TagKey": "a", "TagValue": "b"}]},
        ),
        ("logs", "create_log_group", {"Tags": [{"Key": "a", "Value": "b"}]}, {"tags": {"a": "b"}}),
        ("ssm", "put_parameter", {"Tags": {"a": "b"}}, {"Tags": [{"Key": "a", "Value": "b"}]}),
        ("kms", "create_key", {"MultiRegion": "true"}, {"MultiRegion": True}),
        ("kms", "create_key", {"Policy": {"Statement": []}}, {"Policy": '{"Statement": []}'}),
        ("cloudwatch", "put_metric_alarm", {"Threshold": "0.5"}, {"Threshold": 0.5}),
        ("ssm", "put_parameter", {"Value": 5}, {"Value": "5"}),
    ],
)
def test_properties_become_parameters_by_the_shape_of_the_request(
    world: World, service: str, operation: str, properties: dict[str, Any], request_: dict[str, Any]
) -> None:
    shape = input_shape(world.client(service), operation)
    assert to_request(shape, properties) == request_


def test_a_nested_property_that_the_request_does_not_know_is_refused(world: World) -> None:
    shape = input_shape(world.client("batch"), "create_compute_environment")
    with pytest.raises(ApiError, match="ComputeResources: no parameter for the property Sparkle"):
        to_request(shape, {"ComputeResources": {"Sparkle": 1}})


@pytest.mark.parametrize(
    ("template", "live", "seen"),
    [
        ({"MaxvCpus": 4}, {"maxvCpus": 8, "minvCpus": 0}, {"MaxvCpus": 8}),
        ("90", 90, "90"),
        (True, "true", True),
        ([{"Key": "a"}, {"Key": "b"}], [{"Key": "b"}, {"Key": "a"}], [{"Key": "a"}, {"Key": "b"}]),
        (["x"], ["y", "x"], ["x", "y"]),
        ([{"Key": "a", "Value": "1"}], {"a": "2"}, [{"Key": "a", "Value": "2"}]),
        ({"a": "1"}, [{"Key": "a", "Value": "2"}], {"a": "2"}),
        ({"Statement": []}, '{"Statement": [1]}', {"Statement": [1]}),
        ({"gone": 1}, {}, {}),
    ],
)
def test_an_answer_is_seen_in_the_words_and_order_of_the_template(
    template: Any, live: Any, seen: Any
) -> None:
    assert like(template, live) == seen
