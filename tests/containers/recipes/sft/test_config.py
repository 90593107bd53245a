"""Settings of a fine-tuning are read strictly, and what cannot work is refused before a node starts."""

from __future__ import annotations

import pytest

from slipway.containers.recipes.sft.config import decode_arguments, refuse_ranks
from slipway.containers.runtime.errors import Refusal

WRONG = {
    "4 bits without adapters": (("quantize=nf4",), "set lora_rank, such as 16"),
    "4 bits, sharded": (("quantize=nf4", "lora_rank=8", "fsdp=yes"), "set fsdp=no"),
    "sharded processors": (("fsdp=yes", "device=cpu"), "over GPUs alone"),
    "DPO of a part": (("method=dpo", "loss_on=assistant"), "leave loss_on out"),
    "a hub": (("model=hf://Qwen/Qwen3-8B",), "a path below the data folder, or s3://bucket/prefix"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_together_is_refused_with_what_to_do(case: str) -> None:
    given, told = WRONG[case]
    with pytest.raises(Refusal, match=told):
        decode_arguments(given)


def test_adapters_take_ten_times_the_rate_unless_one_is_set() -> None:
    assert decode_arguments(()).rate == 2e-5
    assert decode_arguments(("lora_rank=16",)).rate == 2e-4
    assert decode_arguments(("lora_rank=16", "rate=1e-5")).rate == 1e-5


def test_a_batch_that_the_ranks_cannot_share_is_refused_before_they_start() -> None:
    refuse_ranks(("global_batch=64", "micro_batch=4"), 16, 8)
    with pytest.raises(Refusal, match="a global batch of 64 is not a multiple of 96"):
        refuse_ranks(("global_batch=64", "micro_batch=4"), 24, 8)


@pytest.mark.parametrize(("changed", "is_another"), [("rate=1e-3", True), ("micro_batch=2", False)])
def test_a_resumed_training_has_the_settings_that_decide_its_weights(changed: str, is_another: bool) -> None:
    assert (decode_arguments((changed,)).identity() != decode_arguments(()).identity()) == is_another
