"""A training of the user's own, as a file that every rank reads. Standard library only: a laptop writes it.

A further thing to say of a task is one field here; those that change what is learnt are in `identity`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.named_files import read_text
from slipway.containers.tasks.references import CodeReference

FACTS_NAME = "facts.json"  # beside the logs, for whoever tries a task
_MOST_BYTES = 1 << 20
_CODE = ("load_model", "load_dataloader", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDescription:
    name: str
    load_model: CodeReference
    load_dataloader: CodeReference
    loss: CodeReference
    rate: float  # of learning
    optimizer: str
    epochs: int | None  # or else so many batches
    batches: int | None
    arguments: Mapping[str, Json] = field(default_factory=dict)  # given to load_model
    micro_batch: int | None = None  # rows that are computed together; None: as many as a rank has
    seed: int = 0
    precision: str = "fp32"

    def identity(self) -> dict[str, Json]:
        """Return what a resumed training must share with the saved one."""
        found = self.as_json()
        return {name: value for name, value in found.items() if name not in ("epochs", "batches")}

    def as_json(self) -> dict[str, Json]:
        record: dict[str, Json] = {each.name: getattr(self, each.name) for each in fields(self)}
        code = {name: getattr(self, name).as_json() for name in _CODE}
        return {**record, **code, "arguments": dict(self.arguments)}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), indent=1), encoding="utf-8")


def read_description(path: Path) -> TaskDescription:
    return parse_description(read_text(path, _MOST_BYTES))


def parse_description(text: str) -> TaskDescription:
    """Read what as_json wrote."""
    record = json.loads(text)
    code = {name: CodeReference.from_json(record[name]) for name in _CODE}
    return TaskDescription(**{**record, **code})
