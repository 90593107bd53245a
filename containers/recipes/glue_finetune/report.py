"""The scores of a fine-tuning, as a file for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from slipway.containers.data.glue.tasks import Task

SCORES_NAME = "scores.json"


def write_scores(folder: Path, task: Task, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Write the final scores by set; an undefined metric is null."""
    defined = {
        split: {name: value if value == value else None for name, value in each.items()}
        for split, each in scores.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCORES_NAME).write_text(json.dumps({"task": task.name, "scores": defined}, indent=1) + "\n")
