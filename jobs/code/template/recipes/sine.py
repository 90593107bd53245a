"""Trains the network of train.py, with settings that are checked before anything is sent.

`slipway recipes sine` lists them; `slipway submit sine --on my-cluster --nodes 2 --set steps=500` trains.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    steps: int = 200  # a setting may be int, float, str, bool, Literal[...], or one of these | None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps is {self.steps}, and must be at least 1")


def train(config: Config) -> int:
    """Run on each rank, in this project's folder; exit code 85 asks for another attempt."""
    os.environ["STEPS"] = str(config.steps)
    from train import main  # imports torch, which the machine that submits may lack

    code: int = main()
    return code
