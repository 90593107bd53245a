"""A user's own model as the engines want it: with layers, and for some techniques with more.

The native engine shards `layers` one by one; a pipeline asks for `cut`, tensor parallelism for `tensor_plan`,
and both for `shape`. A model without layers lends its longest list of modules; nothing of it is renamed.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import Layout

_NEEDED_TO_CUT = {"tensor": ("tensor_plan", "shape"), "pipeline": ("cut", "shape")}


def with_layers(model: nn.Module, layout: Layout, *, engine: str) -> nn.Module:
    """Return the model, ready for this engine and layout; refuse one that cannot be cut so."""
    for degree, names in _NEEDED_TO_CUT.items():
        missing = [name for name in names if not hasattr(model, name)]
        if getattr(layout, degree) > 1 and missing:
            raise Refusal(
                f"{degree}={getattr(layout, degree)} cannot cut {type(model).__name__}, which has no "
                f"{' and no '.join(missing)}",
                hint=f"give it what slipway.containers.models.decoder.Decoder has, or set {degree}=1",
            )
    averaging = next((module for module in model.modules() if isinstance(module, _BatchNorm)), None)
    if averaging is not None and averaging.track_running_stats:
        raise Refusal(
            f"{type(model).__name__} has {type(averaging).__name__}, whose running means our checkpoints "
            "do not keep, and which sees the rows of one rank alone",
            hint="use GroupNorm or LayerNorm, or register a technique of your own",
        )
    if engine == "native" and not isinstance(getattr(model, "layers", None), nn.Module):
        # Not registered: a second name of the same modules would be a second name of their parameters.
        model.__dict__["layers"] = _numbered(_longest_list(model))
    return model


def _longest_list(model: nn.Module) -> nn.Module:
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
    if not lists:
        return nn.ModuleList()
    return max(lists, key=len)


def _numbered(modules: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict(OrderedDict((str(number), child) for number, child in enumerate(modules.children())))
