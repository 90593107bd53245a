"""The page of fidelity is complete and true, and the same in the command and in docs/."""

from __future__ import annotations

import pytest
from botocore.session import get_session

from slipway.yard.services import fidelity, pretending, registry


def test_every_call_of_a_listed_service_has_a_fidelity() -> None:
    for service, calls in fidelity.calls().items():
        assert set(calls) == set(get_session().get_service_model(service).operation_names)


def test_every_call_that_the_yard_serves_is_a_call_of_aws() -> None:
    for service, operation in registry.OPERATIONS:
        assert fidelity.calls()[service][operation] == fidelity.OWN


@pytest.mark.parametrize(
    ("service", "operation", "word"),
    [
        ("batch", "SubmitJob", fidelity.OWN),
        ("batch", "DescribeSchedulingPolicies", fidelity.MOTO),
        ("ec2", "DescribeCapacityBlockOfferings", fidelity.REFUSED),
        ("ec2", "RunInstances", fidelity.MOTO),
        ("pricing", "GetProducts", fidelity.OWN),
        ("pricing", "GetAttributeValues", fidelity.REFUSED),
        ("sagemaker", "CreateTrainingJob", fidelity.OWN),
    ],
)
def test_a_call_is_what_the_page_says(service: str, operation: str, word: str) -> None:
    assert fidelity.calls()[service][operation] == word


def test_a_pretending_call_is_one_of_aws_and_has_no_module() -> None:
    for service, operation in pretending.REASONS:
        assert operation in get_session().get_service_model(service).operation_names
        assert (service, operation) not in registry.OPERATIONS
