"""What a batch script asks of an attempt: from its own words, or from variables of whoever called sbatch."""

from __future__ import annotations

import argparse

import pytest

from slipway.jobs.platforms.slurm.node.train import TrainWords, WrongWords, add_arguments, train_words


def words(*given: str, **environment: str) -> TrainWords:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return train_words(parser.parse_args([*given, "--", "smoke"]), environment)


def test_ranks_of_a_node_are_those_of_the_script_or_else_of_the_variable() -> None:
    assert words().ranks_per_node is None
    assert words(SLIPWAY_PROCESSES_PER_NODE="2").ranks_per_node == 2
    assert words("--ranks-per-node", "1", SLIPWAY_PROCESSES_PER_NODE="2").ranks_per_node == 1


@pytest.mark.parametrize("value", ["0", "-1", "two", "", "²"])
def test_a_number_of_ranks_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(
        WrongWords, match=f"SLIPWAY_PROCESSES_PER_NODE is '{value}'; a number of ranks from 1"
    ):
        words(SLIPWAY_PROCESSES_PER_NODE=value)
