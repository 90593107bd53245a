"""Orders for techniques of the user's own: each runs in a process that sees its devices alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import CodeReference
from slipway.jobs.plan.tasks.library import find_reference
from slipway.jobs.plan.tasks.local_machine import GangEnd, LocalMachine
from slipway.jobs.plan.tasks.own_technique import RESULT_NAME
from slipway.jobs.plan.tasks.task import Task
from slipway.jobs.plan.tasks.warm_processes import ProcessOrder
from slipway.jobs.words.errors import SlipwayError

_MODULE = "slipway.jobs.plan.tasks.own_technique"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOrder:
    what: str  # search or execute
    task: Task
    technique: str
    devices: Sequence[int]
    folder: Path
    parameters: Mapping[str, Json] | None = None
    task_id: int = 0


def run_own(machine: LocalMachine, order: OwnOrder) -> GangEnd:
    order.folder.mkdir(parents=True, exist_ok=True)
    order.task.describe().write(order.folder / "task.json")
    _write_order(order)
    process = ProcessOrder(
        module=_MODULE,
        arguments=[str(order.folder)],
        environment=machine.environment(order.devices),
        output=order.folder / "technique.log",
    )
    return machine.run_orders([process])


def own_result(folder: Path) -> Mapping[str, Any]:
    """Return the parameters and the seconds per batch that a search found."""
    found: Mapping[str, Any] = json.loads((folder / RESULT_NAME).read_text(encoding="utf-8"))
    return found


def _write_order(order: OwnOrder) -> None:
    chosen = order.task.hparams.optimizer_cls
    try:
        optimizer = None if chosen is None else CodeReference.of(chosen, "optimizer_cls").as_json()
        text = json.dumps(
            {
                "what": order.what,
                "technique": find_reference(order.technique).as_json(),
                "devices": len(order.devices),
                "task_id": order.task_id,
                "parameters": order.parameters,
                "save_dir": order.task.options.save_dir,
                "hints": order.task.hints,
                "optimizer": optimizer,
            }
        )
    except (TypeError, ValueError) as error:
        raise SlipwayError(
            f"task '{order.task.name}' has hints or parameters that are no plain values: {error}",
            hint="give text, numbers, lists and dictionaries",
        ) from None
    except Refusal as refusal:
        raise SlipwayError(refusal.message, hint=refusal.hint) from None
    (order.folder / "order.json").write_text(text, encoding="utf-8")
