"""Metrics are GLUE's: the examples are those of scikit-learn's and SciPy's own documentation."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("numpy")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipway.containers.data.glue.tasks import TASKS
from slipway.containers.recipes.glue_finetune import evaluate


def numbers(*values: float) -> evaluate.Numbers:
    return np.array(values, dtype=np.float64)


def test_accuracy_and_f1_count_rows() -> None:
    predicted, labels = numbers(0, 1, 1, 1, 0), numbers(0, 1, 0, 1, 1)
    assert evaluate.accuracy(predicted, labels) == pytest.approx(3 / 5)
    assert evaluate.f1(predicted, labels) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))


def test_matthews_is_scikit_learn_s() -> None:
    """sklearn.metrics.matthews_corrcoef([+1, +1, +1, -1], [+1, -1, +1, +1]) is -0.33."""
    assert evaluate.matthews(numbers(1, 0, 1, 1), numbers(1, 1, 1, 0)) == pytest.approx(-1 / 3)


def test_pearson_and_spearman_are_scipy_s() -> None:
    """Compare with scipy.stats.spearmanr and pearsonr in their examples."""
    counted = numbers(1, 2, 3, 4, 5)
    assert evaluate.spearman(counted, numbers(5, 6, 7, 8, 7)) == pytest.approx(0.8207826816681233)
    assert evaluate.pearson(counted, numbers(10, 9, 2.5, 6, 4)) == pytest.approx(-0.7426106572325057)


def test_answers_that_are_all_alike_score_as_the_libraries_say() -> None:
    alike, labels = numbers(1, 1, 1), numbers(0, 1, 0)
    assert evaluate.matthews(alike, labels) == 0
    assert evaluate.f1(numbers(0, 0), numbers(0, 0)) == 0
    assert math.isnan(evaluate.pearson(alike, labels))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30))
def test_matthews_of_two_labels_is_its_formula(pairs: list[tuple[int, int]]) -> None:
    tp, tn, fp, fn = (pairs.count(each) for each in ((1, 1), (0, 0), (1, 0), (0, 1)))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    expected = (tp * tn - fp * fn) / below if below else 0.0
    found = evaluate.matthews(numbers(*(a for a, _ in pairs)), numbers(*(b for _, b in pairs)))
    assert found == pytest.approx(expected, abs=1e-9)


def test_each_task_has_the_metrics_that_glue_gives_it() -> None:
    """Wang et al. 2019, table 1."""
    two, three = np.array([[2.0, 1], [1, 2], [0, 3]]), np.array([[2.0, 1, 0], [0, 1, 2], [0, 2, 1]])
    labels = numbers(0, 1, 1)
    expected = {"cola": {"matthews"}, "mrpc": {"accuracy", "f1"}, "qqp": {"accuracy", "f1"}}
    for name, task in TASKS.items():
        outputs = three if task.outputs == 3 else two[:, : task.outputs]
        wanted = {"pearson", "spearman"} if name == "stsb" else expected.get(name, {"accuracy"})
        assert set(evaluate.score(task, outputs, labels)) == wanted
