"""Ranks of real process groups communicate over gloo, make their layout's mesh, and end with 0."""

from __future__ import annotations

import pytest

from tests.containers.forks import run_module

pytest.importorskip("torch")


def test_small_messages_do_not_go_over_a_backend_that_knows_no_whole_numbers() -> None:
    done = run_module("tests.containers.training.mesh_ranks")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 ranks ended with [0, 0]"]


# Ranks that trained together end with 0, however busy the machine is.
@pytest.mark.parametrize("endings", [5, pytest.param(20, marks=pytest.mark.long)])
def test_ranks_of_gloo_end_with_0_every_time_on_a_busy_machine(endings: int) -> None:
    ran = run_module("tests.containers.training.gloo_endings", endings)
    assert ran.stdout == f"{2 * endings} ranks ended, not with 0: []\n", ran.stderr
