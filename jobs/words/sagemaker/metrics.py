"""The metrics that SageMaker reads from a training's own lines; a new one is one row of PATTERNS.

SageMaker takes the first group as a number, so a pattern matches only what is one: no nan, no comma. The
lines are those of containers/training/report.py and held_out.py, which rank 0 alone prints.
"""

from __future__ import annotations

from collections.abc import Mapping

_NUMBER = "(-?[0-9]+(?:[.][0-9]+)?(?:e[-+]?[0-9]+)?)"
_STEP = "step [0-9]+/[0-9]+  "
_HELD_OUT = "held out after step [0-9]+: (?:.*  )?"

PATTERNS: Mapping[str, str] = {
    "train:step": "step ([0-9]+)/[0-9]+  loss ",
    "train:loss": f"{_STEP}loss {_NUMBER}  ",
    "train:learning_rate": f"{_STEP}.*  lr {_NUMBER}  ",
    "train:gradient_norm": f"{_STEP}.*  [|]g[|] {_NUMBER}  ",
    "train:sequences_per_second": f"{_STEP}.*  {_NUMBER} sequences/s",
    "train:mfu_percent": f"{_STEP}.*  MFU {_NUMBER}%",
    "held_out:loss": f"{_HELD_OUT}loss {_NUMBER}  ",
    "held_out:accuracy": f"{_HELD_OUT}accuracy {_NUMBER}  ",
    "held_out:perplexity": f"{_HELD_OUT}perplexity {_NUMBER}  ",
}


def metric_definitions() -> list[dict[str, str]]:
    return [{"Name": name, "Regex": pattern} for name, pattern in PATTERNS.items()]
