"""A compile job records what it compiled, and a run with other settings is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway.jobs.platforms.slurm.node.launch import (
    Compiled,
    CompiledOtherwise,
    CompileTally,
    NotCompiled,
    read_record,
    record_file,
    refuse_otherwise,
    write_record,
)
from slipway.jobs.platforms.slurm.node.neuron_environment import (
    LEFT_OUT,
    NeuronNode,
    UnknownCompiler,
    cache_folder,
    neuron_variables,
)

TOTAL = "2026-03-01 12:00:00.000: INFO ||NEURON_PARALLEL_COMPILE||: Total failed compilations: {}"
COMPILED = Compiled(job="7", nodes=4, ranks_per_node=32, compiler="2.23.6484.0", settings={"tensor": "8"})
NODE = NeuronNode(
    compiler="2.23.6484.0",
    kernel="6.8.0-1021-aws",
    has_efa=True,
    main_address="10.0.0.7",
    cache="/fsx/neuron-cache/2.23.6484.0/abc",
)


def tally(*failed: int) -> CompileTally:
    found = CompileTally()
    for line in ["[0] loss 3.0", *(TOTAL.format(count) for count in failed)]:
        found.hear(line)
    return found


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        ((0, 2, 0, 0), "2 graphs failed to compile; allowed is 'Total failed compilations: 0'"),
        ((0, 0, 0), "3 of 4 nodes say"),
    ],
    ids=["a graph of a node", "a node that does not say how it ended"],
)
def test_a_compile_job_fails_for_one_graph_or_node(failed: tuple[int, ...], said: str) -> None:
    with pytest.raises(NotCompiled, match=said):
        tally(*failed).refuse_failures(4)
    tally(0, 0, 0, 0).refuse_failures(4)


def test_a_run_of_other_settings_than_were_compiled_is_refused_and_each_is_named(tmp_path: Path) -> None:
    path = record_file(str(tmp_path), "neox_20b")
    write_record(path, COMPILED)
    compiled = read_record(path)
    assert compiled == COMPILED
    longer = replace(COMPILED, job="9", settings={"tensor": "8", "tokens": "1000"})
    refuse_otherwise(compiled, longer)  # it needs no other graphs
    path.write_text("{")
    assert (read_record(path), read_record(tmp_path / "absent.json")) == (None, None)
    wanted = replace(
        COMPILED, nodes=8, settings={"tensor": "4", "micro_batch": "2", "tokens": "9", "steps": "3"}
    )
    with pytest.raises(CompiledOtherwise) as caught:
        refuse_otherwise(compiled, wanted)
    assert caught.value.message == (
        "this run is not what compile job 7 compiled: nodes is 8, compiled was 4; "
        "micro_batch is 2, compiled was the recipe's default; tensor is 4, compiled was 8"
    )


def test_every_neuron_variable_is_set_and_has_its_reason() -> None:
    found = neuron_variables(NODE)
    assert all(len(reason) > 20 for _, reason in found.values())
    values = {name: value for name, (value, _) in found.items()}
    assert values["NEURON_RT_ROOT_COMM_ID"] == "10.0.0.7:48620"
    assert values["NEURON_COMPILE_CACHE_URL"] == NODE.cache
    assert values["FI_PROVIDER"] == "efa"
    assert not set(values) & set(LEFT_OUT)


def test_the_provider_is_told_of_forks_only_on_an_old_kernel_and_of_efa_only_where_it_is() -> None:
    assert "FI_EFA_FORK_SAFE" in neuron_variables(replace(NODE, kernel="5.10.220-209.869.amzn2"))
    without = neuron_variables(replace(NODE, has_efa=False))
    assert not any(name.startswith("FI_") for name in without)


def test_graphs_of_another_compiler_or_other_flags_lie_elsewhere() -> None:
    folders = {
        cache_folder("/fsx", compiler, flags) for compiler in ("2.23.1", "2.24.1") for flags in ("-O1", "-O2")
    }
    assert len(folders) == 4


def test_a_compiler_of_an_unknown_release_is_refused_by_name() -> None:
    with pytest.raises(UnknownCompiler, match=r"neuronx-cc is 2\.99\.1; its settings are known for 2\.23"):
        neuron_variables(replace(NODE, compiler="2.99.1"))
