"""Runs the smoke test on ranks that add up only half of what tensor ranks send each other."""

from __future__ import annotations

import sys

from slipway.containers.recipes.smoke.train import main
from tests.containers.training.self_checks import lossy_tensor_ranks

if __name__ == "__main__":
    with lossy_tensor_ranks():
        sys.exit(main())
