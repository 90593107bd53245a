"""Each platform's variables become the same contract; values that no platform would set are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.runtime.contract import launchers
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.linux import Machine
from slipway.containers.runtime.values import InvalidContract


class Elsewhere(Machine):
    __slots__ = ()

    def own_address(self) -> str:
        return "10.9.9.9"


STATIC = {"SLIPWAY_JOB": "bert", "SLIPWAY_CHECKPOINTS": "/mnt/checkpoints"}
BATCH = {
    "AWS_BATCH_JOB_ID": "9b0a-77#1",
    "AWS_BATCH_JOB_ATTEMPT": "2",
    "AWS_BATCH_JOB_NODE_INDEX": "1",
    "AWS_BATCH_JOB_NUM_NODES": "4",
    "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
    "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.5",
}
BATCH_MAIN = {
    "AWS_BATCH_JOB_ID": "9b0a-77#0",
    "AWS_BATCH_JOB_ATTEMPT": "2",
    "AWS_BATCH_JOB_NODE_INDEX": "0",
    "AWS_BATCH_JOB_NUM_NODES": "4",
    "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
}
SLURM = {
    "SLURM_JOB_ID": "1201",
    "SLURM_STEP_ID": "0",
    "SLURM_RESTART_COUNT": "1",
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
    "SLURM_NTASKS": "5",
    "SLURM_NNODES": "3",
    "SLURM_TASKS_PER_NODE": "2(x2),1",
    "SLURM_JOB_NODELIST": "trn[001-003],spare",
}
SAGEMAKER = {
    "TRAINING_JOB_NAME": "gpt-1",
    "SM_CURRENT_HOST": "algo-10",
    "SM_HOSTS": json.dumps([f"algo-{n}" for n in range(10, 0, -1)]),
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "MASTER_ADDR": "node1",
}
HYDRA_ROUND = {
    "PMI_RANK": "5",
    "PMI_SIZE": "8",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
    "MASTER_ADDR": "node1",
}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.5",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "2",
}

# platform, its variables, and (run, attempt, node, nodes, rank, world, local rank, local world, main address)
STANDS = [
    ("batch", BATCH, ("9b0a-77", 2, 1, 4, 1, 4, 0, 1, "10.0.0.5")),
    ("batch", BATCH_MAIN, ("9b0a-77", 2, 0, 4, 0, 4, 0, 1, "10.9.9.9")),
    ("batch", {"AWS_BATCH_JOB_ID": "one:3"}, ("one:3", 1, 0, 1, 0, 1, 0, 1, "127.0.0.1")),
    ("slurm", SLURM, ("1201", 2, 2, 3, 4, 5, 0, 1, "trn001")),
    ("sagemaker", SAGEMAKER, ("gpt-1", 1, 9, 10, 9, 10, 0, 1, "algo-1")),
    ("open-mpi", {**SLURM, **OPEN_MPI}, ("1201", 2, 2, 4, 5, 8, 1, 2, "node1")),
    ("hydra", {**HYDRA_ROUND}, ("bert", 1, 2, 4, 5, 8, 1, 2, "node1")),
    ("torchrun", {**BATCH, **TORCHRUN}, ("9b0a-77", 2, 1, 2, 3, 4, 1, 2, "10.0.0.5")),
    ("torchrun", TORCHRUN, ("bert", 3, 1, 2, 3, 4, 1, 2, "10.0.0.5")),
    ("plain", {}, ("bert", 1, 0, 1, 0, 1, 0, 1, "127.0.0.1")),
]


@pytest.mark.parametrize(("platform", "environment", "stands"), STANDS)
def test_every_platform_says_the_same_things(
    platform: str, environment: Mapping[str, str], stands: tuple[object, ...]
) -> None:
    own = {**STATIC, **environment}
    contract = launchers.read_contract(own, Elsewhere())
    assert launchers.detect(own) == platform
    assert (contract.run, contract.attempt, contract.node, contract.nodes) == stands[:4]
    assert (contract.rank, contract.world, contract.local_rank, contract.local_world) == stands[4:8]
    assert contract.main_address == stands[8]
    assert (contract.job, contract.checkpoints) == ("bert", "/mnt/checkpoints")


def test_every_node_of_a_run_derives_the_same_port_and_another_attempt_another() -> None:
    ports = {
        launchers.read_contract({**node, "AWS_BATCH_JOB_ATTEMPT": attempt}, Elsewhere()).main_port
        for node in (BATCH, BATCH_MAIN)
        for attempt in "12"
    }
    assert len(ports) == 2
    assert all(20_000 <= port < 32_000 for port in ports)


def test_ranks_that_go_round_the_nodes_are_told_from_blocks() -> None:
    place = launchers.read_position(
        {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    )
    assert place.node == 2


def test_a_main_node_other_than_the_first_still_is_node_0() -> None:
    environment = {**BATCH, "AWS_BATCH_JOB_MAIN_NODE_INDEX": "3"}
    assert [
        launchers.read_position({**environment, "AWS_BATCH_JOB_NODE_INDEX": index}, Elsewhere()).node
        for index in "3012"
    ] == [0, 1, 2, 3]


def test_a_contract_of_our_own_launcher_is_read_back_as_it_was_given() -> None:
    contract = launchers.read_contract({**STATIC, **BATCH}, Elsewhere())
    assert launchers.read_contract({**BATCH, **contract.to_environment()}, Elsewhere()) == contract


def test_sagemakers_file_serves_where_its_toolkit_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "opt/ml/input/config/resourceconfig.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        '{"current_host": "algo-2", "hosts": ["algo-2", "algo-1"], "network_interface_name": "eth0"}'
    )
    place = launchers.read_position({"TRAINING_JOB_NAME": "gpt"}, Machine(root=tmp_path))
    assert (place.node, place.nodes, place.main_address) == (1, 2, "algo-1")


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({**BATCH, "AWS_BATCH_JOB_NODE_INDEX": "4"}, "AWS_BATCH_JOB_NODE_INDEX"),
        ({**BATCH, "AWS_BATCH_JOB_NODE_INDEX": "٣"}, "AWS_BATCH_JOB_NODE_INDEX"),
        ({**BATCH, "AWS_BATCH_JOB_NUM_NODES": "0"}, "AWS_BATCH_JOB_NUM_NODES"),
        ({**BATCH, "AWS_BATCH_JOB_NUM_NODES": "9999999999"}, "AWS_BATCH_JOB_NUM_NODES"),
        ({**BATCH, "AWS_BATCH_JOB_ATTEMPT": "0"}, "AWS_BATCH_JOB_ATTEMPT"),
        ({**BATCH, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "$(id)"}, "PRIVATE_IPV4_ADDRESS"),
        ({k: v for k, v in BATCH.items() if "PRIVATE" not in k}, "PRIVATE_IPV4_ADDRESS"),
        ({**BATCH, "SLIPWAY_NODES": "2"}, "started 4 node"),
        ({**BATCH, "SLIPWAY_CHECKPOINTS": "a\nb"}, "SLIPWAY_CHECKPOINTS"),
        ({**BATCH, "SLIPWAY_JOB": "a b"}, "SLIPWAY_JOB"),
        ({**BATCH, "SLIPWAY_TIMEOUT_SECONDS": "soon"}, "SLIPWAY_TIMEOUT_SECONDS"),
        ({k: v for k, v in SLURM.items() if k != "SLURM_STEP_ID"}, "srun"),
        ({**SLURM, "SLURM_TASKS_PER_NODE": "2(x"}, "SLURM_TASKS_PER_NODE"),
        ({**SLURM, "SLURM_TASKS_PER_NODE": "2(x2)"}, "SLURM_TASKS_PER_NODE"),
        ({**SLURM, "SLURM_JOB_NODELIST": ""}, "SLURM_JOB_NODELIST"),
        ({**SLURM, "SLURM_JOB_NODELIST": "[[["}, "SLURM_JOB_NODELIST"),
        ({**SAGEMAKER, "SM_HOSTS": "["}, "SM_HOSTS"),
        ({**SAGEMAKER, "SM_HOSTS": "[" * 10**6}, "SM_HOSTS"),
        ({**SAGEMAKER, "SM_HOSTS": "{}"}, "SM_HOSTS"),
        ({**SAGEMAKER, "SM_HOSTS": '["algo-1"]'}, "SM_HOSTS"),
        ({**SAGEMAKER, "SM_HOSTS": '["algo-10", "algo-10"]'}, "twice"),
        ({**SAGEMAKER, "SM_HOSTS": '["algo-10", "a b"]'}, "SM_HOSTS"),
        ({k: v for k, v in OPEN_MPI.items() if k != "MASTER_ADDR"}, "MASTER_ADDR"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, "OMPI_COMM_WORLD_LOCAL_RANK"),
        ({**TORCHRUN, "RANK": "4"}, "RANK"),
        ({k: v for k, v in TORCHRUN.items() if k != "LOCAL_RANK"}, "LOCAL_RANK"),
    ],
)
def test_what_no_platform_would_say_is_refused_by_name(environment: Mapping[str, str], named: str) -> None:
    with pytest.raises(InvalidContract, match=named) as refused:
        launchers.read_contract(environment, Elsewhere())
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node[1-4,7],other", "node1"),
        ("node[008-016]", "node008"),
        ("rack[2-3]n[4-5]", "rack2n4"),
        ("solo,node[1-2]", "solo"),
        ("a-b-1,a-b-2", "a-b-1"),
    ],
)
def test_the_main_host_of_a_slurm_job_is_the_first_of_its_list(nodes: str, first: str) -> None:
    assert launchers.read_position({**SLURM, "SLURM_JOB_NODELIST": nodes}).main_address == first


def test_the_main_host_of_a_slurm_job_is_where_its_batch_script_says() -> None:
    given_ = {**SLURM, "SLIPWAY_MAIN_ADDRESS": "10.0.0.7"}
    assert launchers.read_position(given_).main_address == "10.0.0.7"
    with pytest.raises(InvalidContract, match="SLIPWAY_MAIN_ADDRESS"):
        launchers.read_position({**given_, "SLIPWAY_MAIN_ADDRESS": "a b"})


@given(
    base=st.sampled_from([BATCH, BATCH_MAIN, SLURM, SAGEMAKER, OPEN_MPI, HYDRA_ROUND, TORCHRUN]),
    data=st.data(),
)
def test_any_value_of_any_variable_is_read_or_refused_in_one_line(
    base: dict[str, str], data: st.DataObject
) -> None:
    values = st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-5, 10**13).map(str)
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(base)), st.none() | values, min_size=1))
    environment = {**base, **{name: value for name, value in changes.items() if value is not None}}
    environment = {name: value for name, value in environment.items() if changes.get(name, "") is not None}
    read = contract_or_refusal(environment)
    if isinstance(read, Refusal):
        assert "\n" not in str(read)
        assert read.exit_code == 2
    else:
        assert 0 <= read.rank < read.world
        assert 0 <= read.local_rank < read.local_world <= read.world


def contract_or_refusal(environment: Mapping[str, str]) -> LaunchContract | Refusal:
    try:
        return launchers.read_contract(environment, Elsewhere())
    except Refusal as refused:
        return refused
