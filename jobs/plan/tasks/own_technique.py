"""Run `search` or `execute` of the user's own technique in its own process, for one task."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.tasks.description import CodeReference, TaskDescription, read_description
from slipway.jobs.plan.tasks.library import find_reference
from slipway.jobs.plan.tasks.local_machine import GangEnd, LocalMachine, ProcessOrder
from slipway.jobs.plan.tasks.task import HParams, Strategy, Task
from slipway.jobs.words.errors import SlipwayError

_TIMED = (1, 3)  # batches of two runs: their difference leaves out the start-up
_TASK_ID = 0  # Saturn's id of a task within a process: here each process has one task
RESULT_NAME = "result.json"


def main(arguments: Sequence[str]) -> int:
    """Carry out the order in this folder; write the result of `search` next to it."""
    folder = Path(arguments[0])
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    technique: Any = CodeReference.from_json(order["technique"]).resolve()
    task = _task(read_description(folder / "task.json"), order)
    gpus: list[int] = list(range(order["devices"]))
    if order["parameters"] is not None:
        chosen = Strategy(
            executor=technique, gpu_apportionment=len(gpus), parameters=order["parameters"], runtime=0.0
        )
        task.select_strategy(chosen)
    if order["what"] == "search":
        parameters, seconds = _searched(technique, task, gpus)
        result: dict[str, Json] = {"parameters": parameters, "seconds": seconds}
        (folder / RESULT_NAME).write_text(json.dumps(result), encoding="utf-8")
    else:
        technique.execute(task, gpus, _TASK_ID, None)
    return 0


def _searched(technique: Any, task: Task, gpus: list[int]) -> tuple[dict[str, Json] | None, float | None]:
    """Return parameters and seconds per batch; measure the seconds if `search` returns only parameters."""
    found = technique.search(task, gpus, _TASK_ID)
    if isinstance(found, tuple) and len(found) == 2:
        return (None, None) if found[0] is None else (dict(found[0]), float(found[1]))
    if found is None:
        return None, None
    task.select_strategy(
        Strategy(executor=technique, gpu_apportionment=len(gpus), parameters=dict(found), runtime=0.0)
    )
    taken = []
    for batches in _TIMED:
        began = time.perf_counter()
        technique.execute(task, gpus, _TASK_ID, batches)
        taken.append(time.perf_counter() - began)
    return dict(found), max(0.0, taken[1] - taken[0]) / (_TIMED[1] - _TIMED[0])


def _task(described: TaskDescription, order: Mapping[str, Any]) -> Task:
    """Build the task again from its description."""
    given = order["optimizer"]
    optimizer = (
        CodeReference.from_json(given).resolve() if given else importlib.import_module("torch.optim").AdamW
    )
    assert isinstance(optimizer, type), "a class was given"
    return Task(
        described.load_model.resolve(),
        described.load_dataloader.resolve(),
        described.loss.resolve(),
        HParams(
            described.rate,
            epochs=described.epochs,
            batch_count=described.batches,
            optimizer_cls=optimizer,
            **described.arguments,
        ),
        name=described.name,
        save_dir=order["save_dir"],
        hints=order["hints"],
        micro_batch=described.micro_batch,
        seed=described.seed,
        precision=described.precision,
    )


# Orders for the user's own techniques: each runs in a process that sees only its devices.


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOrder:
    what: str  # search or execute
    task: Task
    technique: str
    devices: Sequence[int]
    folder: Path
    parameters: Mapping[str, Json] | None = None


def run_own(machine: LocalMachine, order: OwnOrder) -> GangEnd:
    order.folder.mkdir(parents=True, exist_ok=True)
    order.task.describe().write(order.folder / "task.json")
    chosen = order.task.hparams.optimizer_cls
    try:
        optimizer = None if chosen is None else CodeReference.of(chosen, "optimizer_cls").as_json()
        text = json.dumps(
            {
                "what": order.what,
                "technique": find_reference(order.technique).as_json(),
                "devices": len(order.devices),
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
    process = ProcessOrder(
        module="slipway.jobs.plan.tasks.own_technique",
        arguments=[str(order.folder)],
        environment=machine.environment(order.devices),
        output=order.folder / "technique.log",
    )
    return machine.run_orders([process])


def own_result(folder: Path) -> Mapping[str, Any]:
    """Return the parameters and the seconds per batch that a search found."""
    found: Mapping[str, Any] = json.loads((folder / RESULT_NAME).read_text(encoding="utf-8"))
    return found
