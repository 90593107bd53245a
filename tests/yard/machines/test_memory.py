"""Jobs are never promised more memory than the machine has, or memory that others were promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.words.errors import SlipwayError
from slipway.yard import process
from slipway.yard.machines.memory import NODE_MIB, RANK_MIB, VARIABLE, KernelMemory, Need, Promises, limit_of

DL1 = Need(nodes=2, ranks=16)  # like a job on two nodes with eight devices each


def pretended(root: Path, total_mib: int, free_mib: int) -> KernelMemory:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    lines = f"MemTotal: {total_mib << 10} kB\nMemFree: 1 kB\nMemAvailable: {free_mib << 10} kB\n"
    (root / "proc/meminfo").write_text(lines)
    return KernelMemory(root=root)


def promises(machine: KernelMemory, **environment: str) -> Promises:
    return Promises(machine=machine, environment=environment)


def test_as_many_jobs_start_as_the_machine_can_hold(tmp_path: Path) -> None:
    found = promises(pretended(tmp_path, 24_000, 20_000))
    admitted = [found.admit(str(number), DL1) for number in range(8)]
    assert admitted == [True, True, False, False, False, False, False, False]
    found.release("0")
    assert found.admit("2", DL1)
    assert not found.admit("3", DL1)


def test_what_a_job_was_promised_and_takes_is_not_counted_twice(tmp_path: Path) -> None:
    found = promises(pretended(tmp_path, 24_000, 20_000))
    assert found.admit("first", DL1)
    pretended(tmp_path, 24_000, 20_000 - DL1.mib)  # it has taken all of it
    assert found.admit("second", DL1)


def test_what_other_programs_take_meanwhile_is_not_promised_to_jobs(tmp_path: Path) -> None:
    found = promises(pretended(tmp_path, 24_000, 20_000))
    assert found.admit("first", Need(nodes=1, ranks=1))
    pretended(tmp_path, 24_000, DL1.mib - 1)
    assert not found.admit("second", DL1)


def test_what_other_programs_give_back_is_promised_to_jobs(tmp_path: Path) -> None:
    found = promises(pretended(tmp_path, 24_000, 1_000))
    assert not found.admit("first", DL1)
    pretended(tmp_path, 24_000, 10_000)
    assert found.admit("first", DL1)


@pytest.mark.parametrize(
    ("cgroup", "folder", "names"),
    [
        ("0::/user/yard", "user/yard", ("memory.max", "memory.current", "inactive_file")),
        ("0::/seen/from/outside", "", ("memory.max", "memory.current", "inactive_file")),
        (
            "4:memory:/user/yard",
            "memory/user",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_a_limit_of_the_container_counts_as_the_machines(
    tmp_path: Path, cgroup: str, folder: str, names: tuple[str, str, str]
) -> None:
    machine = pretended(tmp_path, 64_000, 60_000)
    (tmp_path / "proc/self/cgroup").write_text(f"7:cpu:/user\n{cgroup}\n")
    group = tmp_path / "sys/fs/cgroup" / folder
    group.mkdir(parents=True)
    limit, used, inactive = names
    (group / limit).write_text(f"{4_000 << 20}\n")
    (group / used).write_text(f"{1_500 << 20}\n")
    (group / "memory.stat").write_text(f"anon 5\n{inactive} {500 << 20}\n")
    assert (machine.total_mib(), machine.free_mib()) == (4_000, 3_000)


def test_a_container_without_a_limit_has_the_whole_machine(tmp_path: Path) -> None:
    machine = pretended(tmp_path, 64_000, 60_000)
    (tmp_path / "proc/self/cgroup").write_text("0::/user\n")
    (tmp_path / "sys/fs/cgroup/user").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/user/memory.max").write_text("max\n")
    assert (machine.total_mib(), machine.free_mib()) == (64_000, 60_000)


@pytest.mark.parametrize(
    ("need", "total_mib", "what"),
    [
        (DL1, 5_000, "submit it with --processes-per-node 4"),
        (DL1, 2_000, "submit it with --processes-per-node 1"),
        (Need(nodes=16, ranks=128), 2_000, "submit it with --nodes 3 --processes-per-node 1"),
        (DL1, 300, f"use a machine with more memory, or start the yard with a larger {VARIABLE}"),
    ],
)
def test_a_job_that_can_never_fit_is_refused_with_what_would(
    tmp_path: Path, need: Need, total_mib: int, what: str
) -> None:
    said = promises(pretended(tmp_path, total_mib, 100)).refusal(need)
    assert said is not None
    assert said.endswith(what)
    assert f"the job takes {need.mib:,} MiB" in said
    assert f"jobs of the yard may take {total_mib:,} MiB on this machine" in said
    assert promises(pretended(tmp_path, need.mib, 100)).refusal(need) is None


def test_a_need_counts_nodes_and_ranks() -> None:
    assert DL1.mib == 2 * NODE_MIB + 16 * RANK_MIB
    assert Need(nodes=4, ranks=0).mib == 4 * NODE_MIB


def test_the_setting_takes_the_place_of_what_is_measured(tmp_path: Path) -> None:
    found = promises(pretended(tmp_path, 64_000, 60_000), **{VARIABLE: str(DL1.mib)})
    assert found.admit("first", DL1)
    assert not found.admit("second", Need(nodes=1, ranks=0))
    assert found.refusal(Need(nodes=2, ranks=17)) is not None


@pytest.mark.parametrize("given", ["0", "-1", "4GiB", "1.5", "", "٤", "9" * 11])
def test_a_setting_that_is_no_number_of_mib_is_refused_before_the_yard_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    if not given:
        assert limit_of({VARIABLE: given}) is None
        return
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(
        SlipwayError, match=f"{VARIABLE} is '.*'; it must be a whole number of MiB"
    ) as refused:
        process.up(folder=tmp_path / "home")
    assert "unset it" in refused.value.hint


def test_this_machine_has_memory_and_not_all_of_it_is_free() -> None:
    assert 0 < KernelMemory().free_mib() <= KernelMemory().total_mib()
