"""Cut a model into the stages of a pipeline: its own modules, under the names that they have in it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import TypeVar

from torch import nn

Stage = TypeVar("Stage", bound=nn.Module)


def cut_layers(
    model: nn.Module,
    kind: type[Stage],
    stages: int | Sequence[int],
    *,
    first: Collection[str],
    last: Collection[str],
) -> list[Stage]:
    """Return stages that share the modules of a model: as many layers each as `stages` says, or, of so many
    stages, dealt evenly and the first ones more.

    Of the modules beside the layers, `first` stay in the first stage and `last` in the last; both may name
    one. A stage has None in place of what it lacks. `kind` is the model's class, or one that only computes
    otherwise.
    """
    named = list(model.layers.named_children())
    counts = even_counts(len(named), stages) if isinstance(stages, int) else stages
    assert sum(counts) == len(named), f"{counts} are not the model's {len(named)} layers"
    found, begin = [], 0
    for number, count in enumerate(counts):
        end = begin + count
        stage: Stage = object.__new__(kind)
        # Modules are the model's own; what they are listed in is not, nor are the hooks on the whole.
        stage.__dict__.update({key: copy.copy(value) for key, value in model.__dict__.items()})
        stage.layers = nn.ModuleDict(dict(named[begin:end]))
        kept = {*(first if number == 0 else ()), *(last if number == len(counts) - 1 else ())}
        for name in {*first, *last} - kept:
            setattr(stage, name, None)
        found.append(stage)
        begin = end
    return found


def even_counts(layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage where all have as many, the first ones one more."""
    short, longer = divmod(layers, stages)
    return tuple(short + (number < longer) for number in range(stages))
