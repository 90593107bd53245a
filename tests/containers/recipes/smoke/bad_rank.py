"""Runs the smoke test on ranks of which the second sends a wrong number, as a broken card would."""

from __future__ import annotations

import os
import sys
from typing import Any

from torch import distributed

from slipway.containers.recipes.smoke.train import main

_all_reduce = distributed.all_reduce


def _spoil(tensor: Any, *rest: Any, **named: Any) -> Any:
    if os.environ["RANK"] == "1" and tensor.numel() > 100_000:
        tensor[1] += 0.5
    return _all_reduce(tensor, *rest, **named)


if __name__ == "__main__":
    distributed.all_reduce = _spoil
    sys.exit(main())
