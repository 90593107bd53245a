"""Settings that spread a model over ranks make one choice; contradictions are told before a node starts."""

from __future__ import annotations

import pytest

from slipway.containers.recipes.bert_pretrain.config import decode
from slipway.containers.training.settings import InvalidSettings

CHOICES = [
    ({}, "deepspeed"),  # tiny's default is ZeRO 1
    ({"zero": "0"}, "plain"),
    ({"zero": "3"}, "deepspeed"),
    ({"engine": "plain"}, "plain"),
    ({"tensor": "2"}, "native"),
    ({"sharded": "2", "pipeline": "2"}, "native"),
    ({"checkpoint_activations": "budget:2.5"}, "native"),
    ({"precision": "fp16", "zero": "0"}, "native"),
]


@pytest.mark.parametrize(("settings", "engine"), CHOICES)
def test_the_engine_follows_from_what_is_asked_of_it(settings: dict[str, str], engine: str) -> None:
    assert decode(settings).engine_name == engine


CONTRADICTIONS = [
    ({"engine": "native", "zero": "1"}, "ZeRO is DeepSpeed's; set zero=0"),
    ({"engine": "plain", "tensor": "2"}, "tensor=2 with engine=plain: only native does that"),
    ({"zero": "2", "pipeline": "2"}, "pipeline=2 with engine=deepspeed: only native does that"),
    ({"precision": "fp16", "engine": "plain"}, "only native scales losses"),
    ({"optimizer": "lans", "zero": "3", "learning_rate": "0.01"}, "set zero=1"),
    ({"pipeline": "2", "pipeline_schedule": "interleaved"}, "set both, or neither"),
    ({"pipeline": "2", "stages_per_rank": "2"}, "set both, or neither"),
    ({"checkpoint_activations": "budget:"}, "such as budget:8"),
    ({"evaluate_every": "5"}, "set held_out=DATASET or held_out_share=0.01"),
    ({"held_out_share": "0.1"}, "nothing would be measured; set evaluate_every"),
    ({"profile": "15:10"}, "a first and a last step, such as 10:15"),
]


@pytest.mark.parametrize(("settings", "told"), CONTRADICTIONS)
def test_a_contradiction_is_told_with_its_remedy(settings: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSettings, match=told):
        decode(settings)
