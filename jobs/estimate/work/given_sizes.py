"""Sizes of a model that somebody gives, for a model of ours or for one that has only them: `--set layers=32`.

A further size is one row of SIZES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from slipway.jobs.estimate.errors import CannotEstimate
from slipway.jobs.estimate.work.reading import number, truth, whole
from slipway.jobs.estimate.work.shapes import Layout, Model
from slipway.jobs.estimate.work.work import adapted_share
from slipway.jobs.estimate.work.workloads import Workload

SIZES: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "layers": ("layers", whole),
    "hidden": ("hidden_size", whole),
    "heads": ("heads", whole),
    "key_value_heads": ("key_value_heads", whole),
    "feed_forward": ("feed_forward", whole),
    "vocabulary": ("vocabulary", whole),
    "gated": ("gated", truth),
    "parameters": ("parameters", number),
}
LORA_RANK = "lora_rank"
_HEAD_SIZE, _NARROW_HEAD_SIZE, _NARROW = 128, 64, 2048
_DECODERS_LENGTH, _DECODERS_VOCABULARY = 2048, 50_304
_ENCODERS_LENGTH, _ENCODERS_VOCABULARY, _MASKED = 512, 30_522, 0.15

# Names under which a model is described by its sizes alone, and whether it hides what comes after a token.
BY_SIZES: Mapping[str, bool] = {"decoder": True, "encoder": False}


def described(kind: str, settings: Mapping[str, str]) -> Workload:
    """Describe a model that has only the sizes that are given; what is not said is as usual for its kind."""
    missing = [name for name in ("layers", "hidden") if name not in settings]
    if missing:
        raise CannotEstimate(
            f"{kind} is a model of the sizes that you give, and {missing[0]} is missing",
            hint=f"slipway estimate {kind} --set layers=32 --set hidden=4096 --on TYPE",
        )
    hidden, is_causal = whole("hidden", settings["hidden"]), BY_SIZES[kind]
    model = Model(
        layers=whole("layers", settings["layers"]),
        hidden_size=hidden,
        heads=_usual_heads(hidden),
        feed_forward=4 * hidden,
        vocabulary=_DECODERS_VOCABULARY if is_causal else _ENCODERS_VOCABULARY,
        sequence_length=_DECODERS_LENGTH if is_causal else _ENCODERS_LENGTH,
        causal=is_causal,
        head_share=1.0 if is_causal else _MASKED,
    )
    start = Workload(name=kind, model_name=kind, model=model, layout=Layout(micro_batch=1))
    sized = with_sizes(start, settings)
    shape = sized.model
    said = f"{shape.heads} heads, feed-forward {shape.feed_forward:,}, vocabulary {shape.vocabulary:,}"
    return replace(sized, assumed=f"{said}, where you did not say so")


def with_sizes(workload: Workload, settings: Mapping[str, str]) -> Workload:
    """Return the workload with the sizes among these settings; another model, which nobody has measured."""
    given = {SIZES[name][0]: SIZES[name][1](name, text) for name, text in settings.items() if name in SIZES}
    model = workload.model
    if given:
        hidden = given.get("hidden_size", model.hidden_size)
        assert isinstance(hidden, int)
        if hidden != model.hidden_size:
            given = {"heads": _usual_heads(hidden), "feed_forward": _scaled(model, hidden), **given}
        if "heads" in given:
            given = {"key_value_heads": None, **given}
        model = replace(model, **{"parameters": None, **given})  # type: ignore[arg-type]  # SIZES reads each
    if LORA_RANK in settings:
        model = replace(model, trained_share=adapted_share(model, whole(LORA_RANK, settings[LORA_RANK])))
    changed = ",".join(f"{field.name}={getattr(model, field.name)}" for field in fields(Model))
    is_same = model == workload.model
    return workload if is_same else replace(workload, model=model, model_name=f"of sizes {changed}")


def is_of_sizes(name: str) -> bool:
    return name in SIZES or name == LORA_RANK


def _usual_heads(hidden: int) -> int:
    size = _HEAD_SIZE if hidden >= _NARROW else _NARROW_HEAD_SIZE
    return hidden // size if hidden % size == 0 else 1


def _scaled(model: Model, hidden: int) -> int:
    return max(1, round(model.feed_forward * hidden / model.hidden_size))
