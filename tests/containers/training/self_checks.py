"""Runs self-checks of layouts on real ranks, without a fault and with one in how numbers are sent.

python -m tests.containers.training.self_checks FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed
from torch.distributed.fsdp._fully_shard import _fsdp_collectives

from slipway.containers.recipes.bert_pretrain.model import small_trial as bert
from slipway.containers.recipes.gptj_finetune.config import decode as gptj_config
from slipway.containers.recipes.gptj_finetune.model import small_trial as gptj
from slipway.containers.runtime.checkpoint.tensor_file import torch_collective
from slipway.containers.training.engine import build_mesh
from slipway.containers.training.engines.native.pipeline import Pipeline
from slipway.containers.training.layout import Layout
from slipway.containers.training.self_check import WrongNumbers, check_layout
from slipway.containers.training.trial import LayoutTrial, decoder_trial, small_shape
from tests.containers.training.engines.native.forks import fork_ranks
from tests.containers.training.engines.native.trainings import CONFIG, DECODER, ENCODER, build_parts

Fault = Callable[[], Any]  # a context in which the fault is present


def lossy_tensor_ranks() -> Any:
    """Let tensor ranks add up half of what they send."""
    carried = torch.distributed._functional_collectives.all_reduce

    def run(given: Tensor, *rest: Any, **named: Any) -> Any:
        return carried(given * 0.5, *rest, **named)

    return mock.patch.object(torch.distributed._functional_collectives, "all_reduce", run)


def lossy_shards() -> Any:
    """Let sharded ranks add up half of their gradients, as an average in place of a sum would."""
    carried = _fsdp_collectives.DefaultReduceScatter.__call__

    def run(self: Any, output_tensor: Tensor, input_tensor: Tensor, *rest: Any, **named: Any) -> Any:
        return carried(self, output_tensor, input_tensor * 0.5, *rest, **named)

    return mock.patch.object(_fsdp_collectives.DefaultReduceScatter, "__call__", run)


def forgetful_ends() -> Any:
    """Let the two ends of a pipeline not add up the gradients of shared weights."""
    return mock.patch.object(Pipeline, "exchange")


def deaf_last_stage() -> Any:
    """Lose one number that a stage passes on, as a broken card would."""
    carried = distributed.batch_isend_irecv

    def run(operations: list[distributed.P2POp]) -> Any:
        for each in operations:
            if each.op is distributed.isend and each.tensor.numel() > 1:
                each.tensor.view(-1)[0] = 10.0
        return carried(operations)

    return mock.patch.object(distributed, "batch_isend_irecv", run)


def _decoder(layout: Layout, stages_per_rank: int, **changes: Any) -> LayoutTrial:
    return decoder_trial(small_shape(replace(DECODER, **changes), layout, stages_per_rank))


def _gptj(layout: Layout, stages_per_rank: int, **changes: Any) -> LayoutTrial:
    config = replace(gptj_config({}), stages_per_rank=stages_per_rank, **changes)
    return gptj(config, GPTJ, layout)


def _bert(layout: Layout, stages_per_rank: int) -> LayoutTrial:
    return bert(replace(CONFIG, stages_per_rank=stages_per_rank), ENCODER, layout)


GPTJ = replace(DECODER, family="gptj", has_attention_bias=False, has_head_bias=True, vocabulary=61)
TRIALS: Mapping[str, Callable[[Layout, int], LayoutTrial]] = {
    "neox": _decoder,
    "tied": partial(_decoder, is_tied=True),
    "gptj": _gptj,
    "lora": partial(_gptj, lora_rank=2),
    "bert": _bert,
}


@dataclass(frozen=True, slots=True)
class Case:
    layout: Layout
    trial: str = "neox"
    fault: Fault = nullcontext
    precision: torch.dtype = torch.float32
    settings: Mapping[str, Any] = field(default_factory=dict)


TP2, PP2, FSDP2 = Layout(tensor=2), Layout(pipeline=2), Layout(sharded=2)
CUT = Layout(tensor=2, pipeline=2)
SHARES_ROWS = {"sequence_parallel": "yes"}
RIGHT: Mapping[str, Case] = {
    "tensor ranks": Case(TP2),
    "a pipeline": Case(PP2, "bert"),
    "tensor ranks that share rows": Case(TP2, settings=SHARES_ROWS),
    "stages that share rows": Case(CUT, "tied", precision=torch.bfloat16, settings=SHARES_ROWS),
    "shards in bf16": Case(FSDP2, "gptj", precision=torch.bfloat16),
    "adapters in fp16": Case(TP2, "lora", precision=torch.float16),
    "tied ends of tensor ranks": Case(CUT, "tied"),
    "a pipeline of uneven shards": Case(Layout(sharded=2, pipeline=2), "gptj"),
    "a hybrid": Case(Layout(data=2, sharded=2), "bert", precision=torch.bfloat16),
}
WRONG: Mapping[str, Case] = {
    "lossy tensor ranks": Case(TP2, "neox", lossy_tensor_ranks),
    "lossy shards": Case(FSDP2, "bert", lossy_shards),
    "a pipeline with a bad card": Case(PP2, "gptj", deaf_last_stage),
    "forgetful ends": Case(CUT, "tied", forgetful_ends),
}
CASES = {**RIGHT, **WRONG}


def check(case: Case, rank: int) -> str:
    """Return what the self-check found wrong, or nothing."""
    parts = build_parts("decoder", case.layout, rank)
    device = replace(parts.device, precision=case.precision)
    config = replace(CONFIG, **case.settings)
    parts = replace(parts, config=config, device=device, mesh=build_mesh(case.layout, device))
    try:
        with case.fault():
            check_layout(parts, TRIALS[case.trial](case.layout, config.stages_per_rank), torch_collective())
    except WrongNumbers as wrong:
        return str(wrong)
    return ""


def main(folder: Path) -> None:
    def be_rank(world: int, rank: int) -> None:
        for name, case in CASES.items():
            if case.layout.world == world:
                began = time.perf_counter()
                told = {"said": check(case, rank), "seconds": time.perf_counter() - began}
                (folder / f"{name}.{rank}.json").write_text(json.dumps(told))

    for world in (2, 4):
        fork_ranks(world, partial(be_rank, world))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
