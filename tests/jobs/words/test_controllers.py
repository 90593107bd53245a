"""A controller has room for its workers and for the login node."""

import pytest

from slipway.jobs.words.slurm import most_workers, smallest_controller


@pytest.mark.parametrize(
    ("workers", "size"),
    [(1, "small"), (31, "small"), (32, "medium"), (511, "medium"), (512, "large"), (2047, "large")],
)
def test_the_login_node_takes_a_place_of_its_controller(workers: int, size: str) -> None:
    assert smallest_controller(workers) == size
    assert workers <= most_workers(size)
