"""NCCL gets no variable that AWS advises against, and every other one that a user sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from slipway.containers.runtime.exit_reports import of_rank
from slipway.containers.runtime.launch.assignment import ROOT_VARIABLE, rank_environment
from slipway.jobs.words.catalogue.hardware import FAMILIES, family_of
from slipway.jobs.words.catalogue.instances import every_instance_type
from tests.containers.runtime.contract.test_contract import ONE

ROOT = Path(__file__).parents[4]
CHEATSHEET = "aws-samples/awsome-distributed-training, 1.architectures/efa-cheatsheet.md"
# By variable: the source that says to leave it out with libfabric from 1.18 and aws-ofi-nccl from 1.7 on.
ADVISED_AGAINST: Mapping[str, str] = {
    "FI_EFA_USE_DEVICE_RDMA": f"{CHEATSHEET}: do not set",
    "FI_PROVIDER": f"{CHEATSHEET}: for aws-ofi-nccl up to 1.5.0",
    "NCCL_PROTO": f"{CHEATSHEET}: for aws-ofi-nccl up to 1.5.0",
    "FI_EFA_FORK_SAFE": f"{CHEATSHEET}: not needed since Linux 5.15",
    "FI_EFA_ENABLE_SHM_TRANSFER": f"{CHEATSHEET}: a no-op",
    "FI_EFA_USE_HUGE_PAGE": f"{CHEATSHEET}: only where os.fork() fails, for it costs some speed",
    "NCCL_SOCKET_NTHREADS": f"{CHEATSHEET}: not applicable for EFA",
    "NCCL_NSOCKS_PERTHREAD": f"{CHEATSHEET}: not applicable for EFA",
    "NCCL_MIN_CHANNELS": f"{CHEATSHEET}: leave it out",
    "NCCL_BUFFSIZE": f"{CHEATSHEET}: leave it out",
    "RDMAV_": f"{CHEATSHEET}: do not use any; on newer kernels RDMAV_FORK_SAFE=1 can break things",
    "NCCL_DEBUG": "NCCL, Environment Variables: not for production",
}
# Files that name such a variable, for other libraries than NCCL or for a reader.
OF_OTHERS = {
    "containers/runtime/exit_reports.py",  # advice, where a fork has failed
    "jobs/platforms/slurm/node/neuron_environment.py",
    "jobs/words/catalogue/hardware.py",  # of Gaudi and Trainium
    "jobs/words/mpi.py",  # of MPI, on processors and Gaudi
}
ROUTES = """\
Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
ens66 00000000 0100280A 0003 0 0 522 00000000 0 0 0
ens6 00000000 0100280A 0003 0 0 512 00000000 0 0 0
docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
"""


def advised_against(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith(tuple(ADVISED_AGAINST))}


def test_no_type_with_nvidia_gpus_gets_a_variable_that_aws_advises_against() -> None:
    families = [family_of(each) for each in every_instance_type()]
    on_gpus = [family for family in families if family and family.device == "cuda"]
    assert on_gpus
    names = {name for family in on_gpus for name in (*family.efa_variables, *family.container_variables)}
    assert advised_against(names) == set()


def test_the_list_would_find_what_gaudi_needs() -> None:
    assert advised_against(set(FAMILIES["Habana"].efa_variables)) == {
        "RDMAV_FORK_SAFE",
        "FI_EFA_USE_DEVICE_RDMA",
    }


def test_nothing_else_of_ours_sets_such_a_variable() -> None:
    words = re.compile("|".join(rf"[\"'= ]{name}" for name in ADVISED_AGAINST))
    files = [path for room in ("containers", "infra", "jobs") for path in (ROOT / room).rglob("*")]
    kinds = {".py", ".sh", ".yaml", ".toml", ".j2", ""}
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if path.is_file() and path.suffix in kinds and words.search(path.read_text(errors="replace"))
    }
    assert found - OF_OTHERS == set()


def told(root: Path, **own: str) -> dict[str, str]:
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/net/route").write_text(ROUTES)
    return rank_environment({"SLIPWAY_ACCELERATOR": "nvidia", ROOT_VARIABLE: str(root), **own}, ONE, root)


def test_nccl_meets_over_the_interface_of_the_default_route_and_no_other(tmp_path: Path) -> None:
    """A p5 has 32, and `ens6` alone would mean ens66 as well."""
    found = told(tmp_path)
    assert found["NCCL_SOCKET_IFNAME"] == "=ens6"
    assert advised_against(set(found)) == set()


@pytest.mark.parametrize(("name", "value"), [("NCCL_SOCKET_IFNAME", "^lo"), ("NCCL_PROTO", "simple")])
def test_what_a_person_sets_counts(tmp_path: Path, name: str, value: str) -> None:
    assert told(tmp_path, **{name: value})[name] == value


def test_without_a_default_route_nccl_looks_for_itself(tmp_path: Path) -> None:
    environment = {"SLIPWAY_ACCELERATOR": "nvidia", ROOT_VARIABLE: str(tmp_path)}
    assert "NCCL_SOCKET_IFNAME" not in rank_environment(environment, ONE, tmp_path)


def test_a_fork_that_finds_no_memory_names_what_aws_advises() -> None:
    tail = ["OSError: [Errno 12] Cannot allocate memory"]
    found = of_rank(3, "n1", 1 << 8, tail, out_of_memory=False)
    assert "set FI_EFA_USE_HUGE_PAGE=0" in found.reason
    assert "HUGE_PAGE" not in of_rank(3, "n1", 1 << 8, [], out_of_memory=False).reason
