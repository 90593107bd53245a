"""The command lines of Open MPI, MPICH and Intel MPI that start one launcher a rank. Another MPI is one row.

Values of variables never stand in a command line: mpirun is told their names and takes them from its own
environment, so no shell on any node reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Holds what a node counts of itself: c6i.16xlarge has one NUMA domain, c6i.32xlarge two."""

    domains: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Describes what one mpirun starts."""

    program: str
    hostfile: str
    hosts: Sequence[str]  # the main node first
    ranks_per_host: int
    topology: Topology
    environment: Mapping[str, str]  # of every rank
    command: Sequence[str]
    efa_interfaces: int
    has_ccl: bool  # oneCCL's bindings for torch are installed


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiImplementation:
    programs: tuple[str, ...]  # the first that is there; the one of the EFA installer or of oneAPI first
    says: str  # a pattern of what `--version` prints, as one `mpirun` may be any of these
    words: Callable[[Launch], list[str]]
    host_line: str
    variables: Callable[[Launch], dict[str, str]]  # for mpirun and its ranks


def ranks_of(processes_per_node: int | None, topology: Topology) -> int:
    """Return the given count, or one rank per NUMA domain: remote memory is slow."""
    return processes_per_node or topology.domains


def threads_of(ranks_per_host: int, topology: Topology) -> int:
    return max(1, topology.cores // ranks_per_host)


def mpirun_words(mpi: str, launch: Launch) -> list[str]:
    return [launch.program, *MPIS[mpi].words(launch), *launch.command]


def mpirun_environment(mpi: str, launch: Launch) -> dict[str, str]:
    """Return the variables for the ranks and for mpirun itself."""
    threads = {"OMP_NUM_THREADS": str(threads_of(launch.ranks_per_host, launch.topology))}
    fabric = {"FI_PROVIDER": "efa" if launch.efa_interfaces else "tcp"}
    # oneCCL without an MPI of its own meets through libfabric, and one worker thread takes a core.
    ccl = {"CCL_ATL_TRANSPORT": "ofi", "CCL_WORKER_COUNT": "1"} if launch.has_ccl else {}
    uses_fabric = launch.efa_interfaces or launch.has_ccl or mpi == INTEL_MPI
    own = MPIS[mpi].variables(launch)
    return {**threads, **(fabric if uses_fabric else {}), **ccl, **own, **launch.environment}


def hostfile_text(mpi: str, launch: Launch) -> str:
    line = MPIS[mpi].host_line
    return "".join(f"{line.format(host=host, ranks=launch.ranks_per_host)}\n" for host in launch.hosts)


def _open_mpi(launch: Launch) -> list[str]:
    names = [word for name in sorted(_names(OPEN_MPI, launch)) for word in ("-x", name)]
    world = str(launch.ranks_per_host * len(launch.hosts))
    return ["--hostfile", launch.hostfile, "-np", world, *_open_mpi_binding(launch), *names]


def _open_mpi_binding(launch: Launch) -> list[str]:
    """Place ranks in blocks, host after host, as containers/runtime/contract/launchers.py expects."""
    ranks, topology = launch.ranks_per_host, launch.topology
    blocks = ["--rank-by", "slot"]
    if topology.domains > 1 and ranks % topology.domains == 0:
        return ["--map-by", f"ppr:{ranks // topology.domains}:numa", *blocks, "--bind-to", "numa"]
    if 1 < ranks <= topology.cores:
        cores = threads_of(ranks, topology)
        return ["--map-by", f"ppr:{ranks}:node:PE={cores}", *blocks, "--bind-to", "core"]
    return ["--map-by", f"ppr:{ranks}:node:OVERSUBSCRIBE", *blocks, "--bind-to", "none"]


def _open_mpi_variables(launch: Launch) -> dict[str, str]:
    """Keep mpirun from killing launchers: they end a job everywhere, with its true exit code.

    Ranks of Open MPI 5 are started by PRRTE, which has the same switch under its own name.
    """
    return {
        "OMPI_MCA_orte_abort_on_non_zero_status": "0",
        "PRTE_MCA_prte_abort_on_non_zero_status": "0",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # the main node reaches every host itself, and names it
    }


def _hydra(bind: Callable[[Launch], list[str]], mpi: str) -> Callable[[Launch], list[str]]:
    def words(launch: Launch) -> list[str]:
        world = str(launch.ranks_per_host * len(launch.hosts))
        names = ",".join(sorted(_names(mpi, launch)))
        placed = ["-f", launch.hostfile, "-n", world, "-ppn", str(launch.ranks_per_host)]
        return ["-launcher", "ssh", *placed, *bind(launch), "-genvlist", names]

    return words


def _mpich_binding(launch: Launch) -> list[str]:
    ranks, topology = launch.ranks_per_host, launch.topology
    if topology.domains > 1 and ranks % topology.domains == 0:
        return ["-bind-to", "numa", "-map-by", "numa"]
    if 1 < ranks <= topology.cores:
        return ["-bind-to", f"core:{threads_of(ranks, topology)}"]
    return ["-bind-to", "none"]


def _intel_variables(launch: Launch) -> dict[str, str]:
    ranks, topology = launch.ranks_per_host, launch.topology
    is_numa = topology.domains > 1 and ranks % topology.domains == 0 and ranks == topology.domains
    domain = "numa" if is_numa else str(threads_of(ranks, topology))
    return {
        "I_MPI_FABRICS": "shm:ofi",
        "I_MPI_OFI_PROVIDER": "efa" if launch.efa_interfaces else "tcp",
        "I_MPI_PIN": "1" if ranks <= topology.cores else "0",
        "I_MPI_PIN_DOMAIN": domain,
    }


def _names(mpi: str, launch: Launch) -> set[str]:
    """Name the variables to pass on, those for mpirun too: its daemons on other nodes read them."""
    return set(mpirun_environment(mpi, launch))


def _no_words(launch: Launch) -> list[str]:
    return []


def _no_variables(launch: Launch) -> dict[str, str]:
    return {}


OPEN_MPI, MPICH, INTEL_MPI = "open-mpi", "mpich", "intel-mpi"

MPIS: Mapping[str, MpiImplementation] = {
    OPEN_MPI: MpiImplementation(
        programs=("/opt/amazon/openmpi/bin/mpirun", "mpirun.openmpi", "mpirun"),
        says=r"Open MPI|OpenRTE|PRRTE",
        words=_open_mpi,
        host_line="{host} slots={ranks}",
        variables=_open_mpi_variables,
    ),
    MPICH: MpiImplementation(
        programs=("mpiexec.mpich", "mpiexec.hydra"),
        says="HYDRA",
        words=_hydra(_mpich_binding, MPICH),
        host_line="{host}:{ranks}",
        variables=_no_variables,
    ),
    INTEL_MPI: MpiImplementation(
        programs=("/opt/intel/oneapi/mpi/latest/bin/mpiexec.hydra", "mpiexec.hydra"),
        says=r"Intel\(R\) MPI",
        words=_hydra(_no_words, INTEL_MPI),
        host_line="{host}:{ranks}",
        variables=_intel_variables,
    ),
}
