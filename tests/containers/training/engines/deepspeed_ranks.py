"""Runs trainings under DeepSpeed whose gradients are not finite: `python -m …deepspeed_ranks PORT`."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from torch import Tensor

from slipway.containers.runtime.contract.launchers import read_contract
from slipway.containers.training.devices import open_device
from slipway.containers.training.engine import process_group
from slipway.containers.training.report import NotFinite
from tests.containers.training.test_loop import build_loop, one_batch

STAGES = ("0", "1", "2", "3")


def main(port: int) -> None:
    contract = replace(read_contract({}), main_port=port, collective_seconds=60.0)
    device = open_device(contract, "cpu", "fp32")
    with process_group(device, contract, alone_too=True):
        for zero in STAGES:
            print(zero, "ended with", told_by(zero))


def told_by(zero: str) -> str:
    settings = {"engine": "deepspeed", "zero": zero, "optimizer": "adamw", "learning_rate": "0.01"}
    loop, model, _ = build_loop(settings)
    loop.step(0, one_batch())
    model.pooler.register_full_backward_hook(_not_a_number)  # after a finite loss
    try:
        loop.step(1, one_batch())
    except NotFinite as error:
        return str(error)
    return "nothing"


def _not_a_number(
    module: object, given: tuple[Tensor | None, ...], found: object
) -> tuple[Tensor | None, ...]:
    del module, found
    return tuple(None if gradient is None else gradient * math.nan for gradient in given)


if __name__ == "__main__":
    main(int(sys.argv[1]))
