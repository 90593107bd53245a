"""Ranks find in their environment what their node really has, in addition to the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.containers.runtime.launch.assignment import ROOT_VARIABLE, rank_environment
from tests.containers.runtime.contract.test_contract import ONE
from tests.containers.runtime.nodes import Cluster

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
        ({**DL1, **STAND_IN}, ("nvidia0",), True),  # a yard on a machine that has a GPU
        (DL1, ("accel/accel0",), False),
        (DL1, ("hl0",), False),
        (TRN1, ("neuron0",), False),
        ({}, ("nvidia0",), False),  # nobody promised the device, but it is there
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


@pytest.mark.parametrize(
    ("own", "threads"), [({}, "4"), (STAND_IN, "2"), ({**STAND_IN, "OMP_NUM_THREADS": "3"}, "3")]
)
def test_ranks_share_the_processors_with_all_ranks_that_are_on_them(
    own: Mapping[str, str], threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes of a yard are on one machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    told = rank_environment(own, replace(ONE, rank=1, local_world=2, world=4, node=0), tmp_path)
    assert told["OMP_NUM_THREADS"] == threads


# BI-164, F51: the lock that a killed build of an operator leaves makes no later attempt wait forever.


def test_each_attempt_builds_operators_in_a_folder_of_its_own(tmp_path: Path) -> None:
    built = [
        rank_environment({}, replace(ONE, attempt=attempt), tmp_path / f"{attempt}")["TORCH_EXTENSIONS_DIR"]
        for attempt in (1, 2)
    ]
    assert built == [f"{tmp_path}/1/torch_extensions", f"{tmp_path}/2/torch_extensions"]


def test_a_lock_that_was_left_in_a_folder_of_somebodys_choice_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    lock = tmp_path / "fused_adam" / "lock"
    lock.parent.mkdir()
    lock.touch()
    node = cluster.start({"*": ["show"]}, TORCH_EXTENSIONS_DIR=tmp_path)
    assert node.end() == 0
    (warning,) = [line for line in node.lines if "warning: " in line]
    assert f"{lock} is left from a build that was killed" in warning
