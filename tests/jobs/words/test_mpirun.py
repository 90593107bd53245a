"""The command lines of three MPIs: ranks are pinned, and no shell ever reads the value of a variable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.words.mpi import (
    INTEL_MPI,
    MPICH,
    MPIS,
    OPEN_MPI,
    Launch,
    Topology,
    hostfile_text,
    mpirun_environment,
    mpirun_words,
    ranks_of,
    threads_of,
)

SMALL, LARGE = Topology(domains=1, cores=32), Topology(domains=2, cores=64)  # c6i.16xlarge, c6i.32xlarge
HOSTILE = "a b;$(touch /tmp/x)`id`'\"\\\n"
LAUNCH = Launch(
    program="mpirun",
    hostfile="/run/hostfile",
    hosts=["ip-10-0-0-1", "ip-10-0-0-2"],
    ranks_per_host=1,
    topology=SMALL,
    environment={"SLIPWAY_DATA": HOSTILE},
    command=["python", "-m", "slipway.containers.runtime.launch"],
    efa_interfaces=0,
    has_ccl=False,
)


def follows(words: list[str], *wanted: str) -> bool:
    return any(tuple(words[at : at + len(wanted)]) == wanted for at in range(len(words)))


@pytest.mark.parametrize("mpi", MPIS)
def test_a_value_is_in_the_environment_and_never_in_the_command_line(mpi: str) -> None:
    assert not [word for word in mpirun_words(mpi, LAUNCH) if HOSTILE in word]
    assert mpirun_environment(mpi, LAUNCH)["SLIPWAY_DATA"] == HOSTILE
    assert any("SLIPWAY_DATA" in word for word in mpirun_words(mpi, LAUNCH))


@pytest.mark.parametrize("mpi", MPIS)
def test_the_command_comes_last_and_the_world_is_all_ranks_of_all_hosts(mpi: str) -> None:
    words = mpirun_words(mpi, replace(LAUNCH, ranks_per_host=4))
    assert words[-3:] == LAUNCH.command
    assert follows(words, "-np", "8") or follows(words, "-n", "8")


def test_a_node_has_one_rank_a_numa_domain_unless_somebody_says_otherwise() -> None:
    assert (ranks_of(None, SMALL), ranks_of(None, LARGE), ranks_of(8, SMALL)) == (1, 2, 8)


def test_the_cores_of_a_node_are_shared_out_among_its_ranks() -> None:
    assert (threads_of(1, SMALL), threads_of(2, LARGE), threads_of(100, SMALL)) == (32, 32, 1)
    two = replace(LAUNCH, ranks_per_host=2, topology=LARGE)
    assert mpirun_environment(OPEN_MPI, two)["OMP_NUM_THREADS"] == "32"


def test_ranks_are_pinned_to_a_numa_domain_where_a_node_has_several() -> None:
    two = replace(LAUNCH, ranks_per_host=2, topology=LARGE)
    assert follows(mpirun_words(OPEN_MPI, two), "--map-by", "ppr:1:numa")
    assert follows(mpirun_words(OPEN_MPI, two), "--bind-to", "numa")
    assert follows(mpirun_words(MPICH, two), "-bind-to", "numa")
    assert mpirun_environment(INTEL_MPI, two)["I_MPI_PIN_DOMAIN"] == "numa"


def test_ranks_of_one_domain_are_pinned_to_their_share_of_its_cores() -> None:
    four = replace(LAUNCH, ranks_per_host=4)
    assert follows(mpirun_words(OPEN_MPI, four), "--map-by", "ppr:4:node:PE=8")
    assert follows(mpirun_words(MPICH, four), "-bind-to", "core:8")
    assert mpirun_environment(INTEL_MPI, four)["I_MPI_PIN_DOMAIN"] == "8"


@pytest.mark.parametrize("mpi", MPIS)
def test_more_ranks_than_cores_are_pinned_nowhere(mpi: str) -> None:
    crowd = replace(LAUNCH, ranks_per_host=64)
    words = mpirun_words(mpi, crowd)
    pinned_nowhere = follows(words, "--bind-to", "none") or follows(words, "-bind-to", "none")
    assert pinned_nowhere or mpirun_environment(mpi, crowd)["I_MPI_PIN"] == "0"


def test_the_fabric_is_named_only_where_something_uses_it() -> None:
    """Open MPI finds EFA itself; gloo knows TCP alone."""
    assert "FI_PROVIDER" not in mpirun_environment(OPEN_MPI, LAUNCH)
    assert mpirun_environment(OPEN_MPI, replace(LAUNCH, efa_interfaces=1))["FI_PROVIDER"] == "efa"
    assert mpirun_environment(INTEL_MPI, LAUNCH)["FI_PROVIDER"] == "tcp"
    assert mpirun_environment(INTEL_MPI, replace(LAUNCH, efa_interfaces=1))["I_MPI_OFI_PROVIDER"] == "efa"


def test_each_mpi_is_told_only_what_it_reads() -> None:
    ccl = replace(LAUNCH, has_ccl=True)
    assert not [name for name in mpirun_environment(OPEN_MPI, ccl) if name.startswith("I_MPI_")]
    assert not [name for name in mpirun_environment(MPICH, LAUNCH) if name.startswith(("I_MPI_", "CCL_"))]
    assert mpirun_environment(MPICH, ccl)["CCL_ATL_TRANSPORT"] == "ofi"
    assert "FI_EFA_USE_DEVICE_RDMA" not in mpirun_environment(INTEL_MPI, replace(ccl, efa_interfaces=1))


def test_the_hostfile_names_the_main_node_first_with_its_ranks() -> None:
    two = replace(LAUNCH, ranks_per_host=2)
    assert hostfile_text(OPEN_MPI, two) == "ip-10-0-0-1 slots=2\nip-10-0-0-2 slots=2\n"
    assert hostfile_text(MPICH, two) == "ip-10-0-0-1:2\nip-10-0-0-2:2\n"
