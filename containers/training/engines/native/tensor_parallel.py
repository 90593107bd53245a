"""Tensor parallelism: each rank of a tensor group holds some columns or rows of a layer's matrices.

A model names the cuts in its `tensor_plan`, module by module (`*` is any layer):
columns       the outputs, and so whole heads; `columns of 3` where three matrices are stacked in one
rows          the inputs, which come cut from a module by columns; outputs are summed over the group
words         an embedding by its words; scores: the head's words, and the loss is computed on the cut scores
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Say how a module's weight and bias are cut, and who runs it so."""

    style: Callable[[], ParallelStyle]
    weight_side: int  # the dimension of the weight that is cut
    cuts_bias: bool
    stacked: int = 1  # matrices that are one weight, each cut by itself
    may_stay_whole: bool = False


CUTS: Mapping[str, Cut] = {
    "columns": Cut(style=ColwiseParallel, weight_side=0, cuts_bias=True),
    "columns of 3": Cut(style=ColwiseParallel, weight_side=0, cuts_bias=True, stacked=3),
    "rows": Cut(style=RowwiseParallel, weight_side=1, cuts_bias=False),
    "words": Cut(
        style=lambda: RowwiseParallel(input_layouts=Replicate()),
        weight_side=0,
        cuts_bias=False,
        may_stay_whole=True,
    ),
    "scores": Cut(
        style=lambda: ColwiseParallel(use_local_output=False),
        weight_side=0,
        cuts_bias=True,
        may_stay_whole=True,
    ),
}


def planned(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield each module that the model's plan names, with its name and the word for its cut."""
    plan: Mapping[str, str] = getattr(model, "tensor_plan", {})
    for name, module in model.named_modules():
        for pattern, word in plan.items():
            if fnmatchcase(name, pattern) and name.count(".") == pattern.count("."):
                yield name, module, word


def planned_cuts(model: nn.Module, degree: int) -> dict[str, Cut]:
    """Return the cut of each module; none if there is nothing to cut.

    Words that the degree does not divide stay whole on every rank: whoever had more of them would keep the
    others waiting.
    """
    if degree == 1:
        return {}
    found = {name: (module, CUTS[word]) for name, module, word in planned(model)}
    return {
        name: cut
        for name, (module, cut) in found.items()
        if not cut.may_stay_whole or module.weight.shape[cut.weight_side] % degree == 0
    }


def cut_modules(model: nn.Module, cuts: Mapping[str, Cut], mesh: DeviceMesh) -> None:
    """Replace the parameters of the modules by this rank's share, and let them communicate."""
    for name, cut in cuts.items():
        module = model.get_submodule(name)
        frozen = [leaf for leaf, parameter in module.named_parameters() if not parameter.requires_grad]
        parallelize_module(module, mesh, cut.style())
        for leaf in frozen:  # PyTorch 2.8 would train them from here on
            module.get_parameter(leaf).requires_grad_(False)


def cut_side(cuts: Mapping[str, Cut], parameter: str) -> tuple[int | None, int]:
    """Return the dimension in which a parameter is cut, or None, and how many matrices are stacked in it."""
    module, _, leaf = parameter.rpartition(".")
    cut = cuts.get(module)
    if cut is None or (leaf == "bias" and not cut.cuts_bias):
        return None, 1
    return (0 if leaf == "bias" else cut.weight_side), cut.stacked
