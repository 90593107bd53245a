"""What ranks find in their environment beside the contract, by what their node really has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from slipway.containers.runtime.launch.assignment import ROOT_VARIABLE, rank_environment
from tests.containers.runtime.contract.test_contract import ONE

DL1 = {"SLIPWAY_ACCELERATOR": "habana", "SLIPWAY_ACCELERATORS": "8"}
TRN1 = {"SLIPWAY_ACCELERATOR": "neuron", "SLIPWAY_ACCELERATORS": "16"}
STAND_IN = {"SLIPWAY_STAND_IN": "1"}
NOTHING: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("promised", "devices", "joins"),
    [
        ({}, NOTHING, True),
        ({**DL1, **STAND_IN}, NOTHING, True),
        ({**TRN1, **STAND_IN}, NOTHING, True),
        ({**DL1, **STAND_IN}, ("nvidia0",), True),  # a yard on somebody's machine with a GPU
        (DL1, ("accel/accel0",), False),
        (DL1, ("hl0",), False),
        (TRN1, ("neuron0",), False),
        ({}, ("nvidia0",), False),  # nobody promised it, and it is there
    ],
)
def test_accelerate_joins_processors_into_one_training_wherever_they_do_the_work(
    promised: Mapping[str, str], devices: tuple[str, ...], joins: bool, tmp_path: Path
) -> None:
    for name in devices:
        (tmp_path / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / name).touch()
    told = rank_environment({**promised, ROOT_VARIABLE: str(tmp_path)}, ONE, tmp_path)
    assert told.get("ACCELERATE_USE_CPU") == ("true" if joins else None)


def test_what_a_user_says_to_accelerate_himself_counts(tmp_path: Path) -> None:
    own = {"ACCELERATE_USE_CPU": "false", ROOT_VARIABLE: str(tmp_path)}
    assert rank_environment(own, ONE, tmp_path)["ACCELERATE_USE_CPU"] == "false"
