"""The launch contract survives the environment, and refuses what cannot be true."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.values import InvalidContract

ONE = LaunchContract(
    job="bert",
    run="3f0e",
    attempt=2,
    rank=9,
    local_rank=1,
    local_world=8,
    world=16,
    node=1,
    nodes=2,
    main_address="10.0.0.7",
    main_port=29400,
    data="s3://bucket/wikicorpus",
    checkpoints="/mnt/shared/bert é",
    logs=None,
    account="123456789012",
    deadline=1_800_000_000.25,
    usd_per_hour=86.0,
)

PLACES = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)


@st.composite
def contracts(draw: st.DrawFn) -> LaunchContract:
    nodes, local_world = draw(st.integers(1, 64)), draw(st.integers(1, 32))
    node, local_rank = draw(st.integers(0, nodes - 1)), draw(st.integers(0, local_world - 1))
    return LaunchContract(
        job=draw(st.from_regex(r"[!-~]{1,40}", fullmatch=True)),
        run=draw(st.from_regex(r"[!-~]{1,40}", fullmatch=True)),
        attempt=draw(st.integers(1, 1000)),
        rank=node * local_world + local_rank,
        local_rank=local_rank,
        local_world=local_world,
        world=nodes * local_world,
        node=node,
        nodes=nodes,
        main_address=draw(st.sampled_from(["10.0.0.1", "fe80::1", "algo-1", "node1.cluster.local"])),
        main_port=draw(st.integers(1, 65535)),
        data=draw(PLACES),
        checkpoints=draw(PLACES),
        logs=draw(PLACES),
        archive=draw(PLACES),
        account=draw(st.none() | st.from_regex(r"[0-9]{12}", fullmatch=True)),
        accelerator=draw(st.none() | st.sampled_from(["habana", "neuron", "nvidia"])),
        deadline=draw(st.none() | st.floats(0.001, 9e9)),
        usd_per_hour=draw(st.none() | st.floats(0.001, 9e4)),
        collective_seconds=draw(st.floats(0.001, 9e4)),
    )


@given(contract=contracts())
def test_a_contract_travels_through_the_environment_unchanged(contract: LaunchContract) -> None:
    assert LaunchContract.from_environment(contract.to_environment()) == contract


def test_children_find_the_variables_that_torch_and_deepspeed_read() -> None:
    environment = ONE.to_environment()
    assert {
        name: environment[name]
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    } == {
        "RANK": "9",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "29400",
    }


HOSTILE = [
    "",
    " 1",
    "1 ",
    "+1",
    "-1",
    "1.0",
    "1e3",
    "0x1",
    "٣",
    "１",
    "999999999999999999999",
    "1\n",
    "one",
    "\x1b[2J",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "name", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "SLIPWAY_NODE", "MASTER_PORT", "SLIPWAY_ATTEMPT"]
)
def test_a_number_that_is_none_is_refused_in_one_line_that_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidContract, match=f"^{name} is .*must be a whole number") as refused:
        LaunchContract.from_environment({**ONE.to_environment(), name: value})
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 16},
        {"rank": -1},
        {"rank": 0},  # below its local rank
        {"local_rank": 8},
        {"node": 2},
        {"nodes": 0},
        {"nodes": 10},  # with 8 ranks on one of them
        {"world": 2_000_000},
        {"attempt": 0},
        {"main_port": 0},
        {"main_port": 65_536},
        {"main_address": "10.0.0.1; rm -rf ."},
        {"main_address": ""},
        {"job": "two words"},
        {"run": ""},
        {"data": ""},
        {"checkpoints": "a\nb"},
        {"logs": "a\0b"},
        {"account": "1234"},
        {"deadline": float("nan")},
        {"deadline": float("inf")},
        {"deadline": -1.0},
        {"collective_seconds": 0.0},
    ],
    ids=str,
)
def test_a_contract_that_cannot_be_true_is_never_made(change: dict[str, object]) -> None:
    with pytest.raises(InvalidContract) as refused:
        replace(ONE, **change)  # type: ignore[arg-type]  # hostile on purpose
    assert str(refused.value).isprintable()


@given(
    environment=st.dictionaries(
        st.sampled_from(sorted(ONE.to_environment())),
        st.text(st.characters(exclude_categories=["Cs"])),
        min_size=1,
    )
)
def test_any_environment_is_a_contract_or_one_clear_line(environment: dict[str, str]) -> None:
    read = contract_or_message({**ONE.to_environment(), **environment})
    if isinstance(read, str):
        assert re.fullmatch(r"[^\n]{1,1000}", read)
    else:
        assert LaunchContract.from_environment(read.to_environment()) == read


def contract_or_message(environment: dict[str, str]) -> LaunchContract | str:
    try:
        return LaunchContract.from_environment(environment)
    except InvalidContract as refused:
        return str(refused)
