"""Makes the parts of an engine for a BERT of one layer, in this process."""

from __future__ import annotations

from slipway.containers.models.encoder import BertForPreTraining
from slipway.containers.models.shapes import EncoderShape
from slipway.containers.recipes.bert_pretrain.config import decode, plan_batch
from slipway.containers.recipes.bert_pretrain.model import BertTask
from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import EngineParts, StepWatch
from slipway.containers.training.layout import Layout

ALONE = read_contract({})
SHAPE = EncoderShape(layers=1, hidden=16, heads=2, intermediate=64, vocabulary=50)
_SETTINGS = {"zero": "0", "precision": "fp32", "device": "cpu", "steps": "2", "micro_batch": "2"}


def tiny_parts(
    shape: EncoderShape = SHAPE, settings: dict[str, str] | None = None
) -> tuple[EngineParts, BertForPreTraining]:
    config, model = decode({**_SETTINGS, **(settings or {})}), BertForPreTraining(shape)
    parts = EngineParts(
        config=config,
        task=BertTask(),
        model=model,
        device=open_device(ALONE, "cpu", "fp32"),
        layout=Layout(),
        rank=0,
        plan=plan_batch(config, 1),
        watch=StepWatch(),
    )
    return parts, model
