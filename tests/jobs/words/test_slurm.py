"""Slurm's folder on a node is known, and how many nodes its controllers can have."""

import pytest

from slipway.jobs.words.slurm import most_workers, program_folders, smallest_controller


def test_a_release_of_slurm_names_the_folder_of_pcs_and_debians_comes_last() -> None:
    folders = program_folders("25.05.3")
    assert folders[0] == "/opt/aws/pcs/scheduler/slurm-25.05/bin"
    assert folders[-1] == "/usr/bin"
    assert program_folders("25.05") == folders


# A controller has room for its workers and for the login node.


@pytest.mark.parametrize(
    ("workers", "size"),
    [(1, "small"), (31, "small"), (32, "medium"), (511, "medium"), (512, "large"), (2047, "large")],
)
def test_the_login_node_takes_a_place_of_its_controller(workers: int, size: str) -> None:
    assert smallest_controller(workers) == size
    assert workers <= most_workers(size)
