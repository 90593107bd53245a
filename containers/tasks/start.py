"""The parts that a user's own task gives to the shared session: model, data, loss, schedule."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown
from slipway.containers.tasks.batches import (
    LoadedBatches,
    RowShares,
    UserTask,
    flat,
    len_of,
    rows_of,
    seed_draws,
)
from slipway.containers.tasks.config import UserTaskConfig
from slipway.containers.tasks.description import FACTS_NAME, TaskDescription
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace

_TORCH_EPSILON = 1e-8
_MOST_SAMPLED = 1024  # numbers of a parameter, to compare


def prepare(config: UserTaskConfig, place: Workplace) -> RecipeParts:
    task = config.task
    seed_draws(task.seed)
    model = with_layers(build_model(task), place.layout, engine=config.engine_name)
    loader = task.load_dataloader.resolve()()
    cut = RowShares(
        layout=place.layout,
        reader=place.reader,
        stages=1 if place.layout.pipeline == 1 else place.layout.pipeline * config.stages_per_rank,
        micro_batch=task.micro_batch,
    )
    first = first_batch(loader, task.seed)
    rows = rows_of(first)
    pieces = cut.pieces(rows)
    steps = config.steps or steps_of(task, loader)
    _write_facts(place, model, rows, len_of(loader) if hasattr(loader, "__len__") else None)
    batches = LoadedBatches(load=lambda: loader, cut=cut, seed=task.seed, device=place.device)
    return RecipeParts(
        title=f"{task.name}: {steps} batches of {rows} rows",
        task=UserTask(task.loss.resolve()),
        model=model,
        plan=BatchPlan(
            micro_batch=max(1, rows // (pieces * place.layout.readers)),
            accumulation_steps=pieces,
            readers=place.layout.readers,
        ),
        schedule=Schedule(peak=task.rate, steps=steps, warmup_share=0.0, constant_share=1.0, decay_power=1.0),
        identity=task.identity(),
        open_batches=batches.open,
        epsilon=_TORCH_EPSILON,
        agree=partial(refuse_other_beginnings, beginning_of(model, first)),
    )


def build_model(task: TaskDescription) -> nn.Module:
    """Call the user's load_model; the seed gives the same weights on every rank."""
    torch.manual_seed(task.seed)
    load = task.load_model.resolve()
    model = load(dict(task.arguments)) if task.arguments else load()
    if not isinstance(model, nn.Module):
        raise Refusal(
            f"load_model returns {type(model).__name__}, but must return a torch.nn.Module",
            hint=f"let {task.load_model.name} return the model",
        )
    return model


def steps_of(task: TaskDescription, loader: object) -> int:
    """Return how many batches the task trains on."""
    if task.batches is not None:
        return task.batches
    return cast(int, task.epochs) * len_of(loader)


def first_batch(loader: object, seed: int) -> dict[str, Tensor]:
    # A user's own iterator may begin again with each iter(), a generator or zip never does.
    if isinstance(loader, Iterator) and type(loader).__module__ in ("builtins", "itertools"):
        raise Refusal(
            f"load_dataloader returns a {type(loader).__name__}, which can be read only once",
            hint="let it return a DataLoader, or a list of batches: every epoch reads them again",
        )
    try:
        seed_draws(seed)
        return flat(next(iter(loader)))  # type: ignore[call-overload]  # TypeError is caught
    except TypeError:
        raise Refusal(
            f"load_dataloader returns {shown(type(loader).__name__)}, which cannot be iterated",
            hint="let it return a DataLoader, or a list of batches",
        ) from None
    except StopIteration:
        raise Refusal("load_dataloader returns no batches", hint="give it rows") from None


def beginning_of(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Json]:
    """Return digests of what a rank begins with: some numbers of each parameter, and all of a batch."""
    numbers = (each.detach().flatten() for each in model.parameters() if not each.is_meta)
    some = (each[:: 1 + len(each) // _MOST_SAMPLED] for each in numbers)
    return {"model": _digest(some), "first batch": _digest(batch.values())}


def _digest(tensors: Iterable[Tensor]) -> str:
    running = sha256()
    for tensor in tensors:
        flattened = tensor.detach().cpu().contiguous().flatten()
        running.update(flattened.view(torch.uint8).numpy() if len(flattened) else b"")
    return running.hexdigest()


def refuse_other_beginnings(own: dict[str, Json], collective: Collective) -> None:
    """Raise Refusal on all ranks if their models or first batches differ: each would train on its own."""
    first, *others = cast(list[dict[str, Json]], collective.gather(own))
    for rank, other in enumerate(others, 1):
        if differing := [what for what in own if other[what] != first[what]]:
            raise Refusal(
                f"rank {rank} begins with another {' and another '.join(differing)} than rank 0",
                hint="draw from torch, numpy or random without a seed of the rank's own, sort file names, "
                "and share out no rows: Slipway does",
            )


def _write_facts(place: Workplace, model: nn.Module, rows: int, batches: int | None) -> None:
    """Write the facts for an estimate beside the steps of a trial."""
    contract = place.contract
    if contract.rank or contract.logs is None:
        return
    folder = Path(contract.logs)
    folder.mkdir(parents=True, exist_ok=True)
    layers = getattr(model, "layers", None)
    facts = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": max(1, len(list(layers.children()))) if isinstance(layers, nn.Module) else 1,
        "widest": max(
            (parameter.shape[-1] for parameter in model.parameters() if parameter.ndim > 1), default=1
        ),
        "rows": rows,
        "batches": batches,
        "device": place.device.kind,
    }
    (folder / FACTS_NAME).write_text(json.dumps(facts), encoding="utf-8")


# The attributes of a model that engines need. The native engine shards `layers` one by one; a pipeline needs
# `cut`, tensor parallelism needs `tensor_plan`, and both need `shape`. Without `layers`, the longest list of
# modules serves; its parameters keep their names.
_NEEDED_TO_CUT = {"tensor": ("tensor_plan", "shape"), "pipeline": ("cut", "shape")}


def with_layers(model: nn.Module, layout: Layout, *, engine: str) -> nn.Module:
    """Return the model with what this engine and layout need; refuse one that cannot be cut so."""
    for degree, names in _NEEDED_TO_CUT.items():
        missing = [name for name in names if not hasattr(model, name)]
        if getattr(layout, degree) > 1 and missing:
            raise Refusal(
                f"{degree}={getattr(layout, degree)} cannot cut {type(model).__name__}, which has no "
                f"{' and no '.join(missing)}",
                hint=f"give it what slipway.containers.models.decoder.Decoder has, or set {degree}=1",
            )
    averaging = next((module for module in model.modules() if isinstance(module, _NormBase)), None)
    if averaging is not None and averaging.track_running_stats:
        raise Refusal(
            f"{type(model).__name__} has {type(averaging).__name__}, whose running means our checkpoints "
            "do not keep, and which sees the rows of one rank alone",
            hint="use GroupNorm or LayerNorm, or register a technique of your own",
        )
    if engine == "native" and not isinstance(getattr(model, "layers", None), nn.Module):
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
        longest = max(lists, key=len, default=nn.ModuleList())
        numbered = OrderedDict((str(number), child) for number, child in enumerate(longest.children()))
        # Not registered as a module: that would give the same parameters second names.
        model.__dict__["layers"] = nn.ModuleDict(numbered)
    return model
