"""A training under DeepSpeed says so when its numbers are not finite."""

from __future__ import annotations

import re
import sys

import pytest

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.engine import build_engine
from tests.containers.forks import free_port, run_module
from tests.containers.training.engines.deepspeed_ranks import STAGES
from tests.containers.training.tiny_bert import tiny_parts
from tests.packages import require

require("deepspeed")


@pytest.mark.slow
def test_a_gradient_that_is_no_number_ends_the_training_with_advice_at_every_stage() -> None:
    """DeepSpeed itself returns such a norm, or stops at an assertion; a user is told neither."""
    module = "tests.containers.training.engines.deepspeed_ranks"
    found = run_module(module, free_port(), LOCAL_RANK="0")
    assert found.returncode == 0, found.stderr
    lines = [line for line in found.stdout.splitlines() if " ended with " in line]
    assert [line.split()[0] for line in lines] == list(STAGES)
    for line in lines:
        assert re.search(r"the gradient norm is (nan|inf) at step 2.*: lower learning_rate", line)


def test_without_deepspeed_its_engine_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image may have only torch, as a user's own machine often does."""
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    parts, _ = tiny_parts(settings={"zero": "1"})
    with pytest.raises(Refusal, match="engine deepspeed needs the package 'deepspeed', which is not"):
        build_engine(parts)
