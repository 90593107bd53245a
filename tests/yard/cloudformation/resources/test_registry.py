"""The list of types: complete, cheap, and plain about what is not in it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from slipway.yard.cloudformation.resources import registry
from slipway.yard.cloudformation.resources.provider import Fidelity
from slipway.yard.errors import ApiError
from tests.yard.cloudformation.resources.cases import CASES

# Its function answers to the yard's own process: services/functions/test_custom_resources.py.
ELSEWHERE = {"AWS::CloudFormation::CustomResource"}
MODULES = sorted({module for module, _ in registry.TYPES.values()})


@pytest.mark.parametrize("module", MODULES)
def test_the_registry_and_the_modules_list_the_same_types(module: str) -> None:
    listed = {kind: fidelity for kind, (name, fidelity) in registry.TYPES.items() if name == module}
    table = import_module(f"{registry.PACKAGE}.{module}").PROVIDERS
    assert listed == {kind: provider.fidelity for kind, provider in table.items()}


def test_every_emulated_type_is_tried_in_a_round_trip() -> None:
    assert set(CASES) == set(registry.TYPES) - ELSEWHERE


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("AWS::GameLift::Fleet", "the yard does not emulate AWS::GameLift::Fleet"),
        ("AWS::EC2::Fleet", "AWS::EC2::LaunchTemplate"),
    ],
)
def test_a_type_that_is_not_emulated_is_refused_by_name(kind: str, says: str) -> None:
    with pytest.raises(ApiError, match="Template format error") as refused:
        registry.provider(kind)
    assert refused.value.code == "ValidationError"
    assert says in refused.value.message


def test_types_are_told_apart_by_how_far_they_can_be_trusted() -> None:
    fidelities = registry.fidelities()
    assert fidelities["AWS::EC2::VPC"] is Fidelity.MOTO
    assert fidelities["AWS::FSx::DataRepositoryAssociation"] is Fidelity.RECORDED


def test_listing_the_types_loads_no_provider() -> None:
    program = (
        "import sys; from slipway.yard.cloudformation.resources.registry import fidelities; fidelities();"
        "print([name for name in sys.modules if name.split('.')[0] in ('boto3', 'botocore', 'moto')"
        " or name == 'slipway.yard.services.iam.resources'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
