"""Computes how far off a rate may be, by its distance from the measurement on which it is based.

A spread is half the width of the interval in which nine of ten published rows were, in logarithms of the
rate: 0.1 is from 10 % less to 11 % more. Another fact that distinguishes configurations is one field of
MeasuredAt (shapes.py), one weight here, and its line in distance().
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from slipway.jobs.estimate.hardware import prior
from slipway.jobs.estimate.work.shapes import Hardware, Layout, MeasuredAt, Model

# Distances, fitted to pairs of published rows by quantile regression; every table weighs the same.
_SAME = 0.12  # the same model on the same machines
_OTHER_SOURCE = 0.05  # measured by somebody else, with other software
_WIDTH, _LENGTH, _DEVICES, _TOKENS = 0.11, 0.22, 0.02, 0.08  # for each factor of e; of devices, of 2
_UNSHAPED_WIDTH = 0.22  # for devices whose model has no width of layers (hardware.py)
_TENSOR, _PIPELINE = 0.05, 0.04  # for each factor of 2 in the degree
_MOST_TOKENS = 2.0  # beyond which a micro-batch makes no further difference
_OTHER_ENGINE, _OTHER_CHECKPOINTING, _OTHER_MASK = 0.4, 0.06, 0.1
_PRIOR = 0.45  # only the prior of a measured accelerator
_UNMEASURED = 1.1  # nobody measured the accelerator

# Factors from distances to spreads, by accelerator: a quantile of errors, each divided by its distance. "" is
# any other. evidence/bands.py computes them, and a test compares them with that.
WIDTHS: Mapping[str, float] = {"": 0.73, "a100": 0.61, "gaudi": 0.76, "h100": 0.61, "h100-fp8": 0.79}
# Guessed factors by which a range is wider at both ends, as no row of these kinds was there to measure with.
# Experts wait for the fullest one and for what is sent between them; adapters add small matrices.
UNMEASURED_KINDS: Mapping[str, float] = {"experts": 2.0, "encoder-decoder": 1.35, "adapters": 1.35}


def origin_of(model: Model, cluster: Hardware, layout: Layout, *, is_own: bool = True) -> MeasuredAt:
    return MeasuredAt(
        hidden_size=model.hidden_size,
        sequence_length=model.sequence_length,
        causal=model.causal,
        devices=cluster.devices,
        tokens=layout.micro_batch * model.sequence_length,
        is_sharded=_is_sharded(layout.sharding),
        checkpointing=layout.checkpointing,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        is_own=is_own,
        kinds=kinds_of(model),
    )


def spread(model: Model, cluster: Hardware, layout: Layout, origin: MeasuredAt | None) -> float:
    """Return the spread of a rate; without an origin, or far from it, that of the accelerator's prior."""
    known = prior(cluster)
    is_known, width = known.is_measured, width_of(known.accelerator)
    most = prior_spread(cluster) * (width if is_known else 1.0)
    beyond = sum(math.log(UNMEASURED_KINDS[kind]) for kind in _kinds_beyond(model, origin))
    if origin is None:
        return most + beyond
    far = width * distance(model, cluster, layout, origin)
    return (min(far, most) if is_known else far) + beyond


def measured_spread(cluster: Hardware, *, is_own: bool) -> float:
    """Return the spread of a measured rate, by the user or by somebody else."""
    return width_of(prior(cluster).accelerator) * _same(is_own=is_own)


def width_of(accelerator: str) -> float:
    return WIDTHS.get(accelerator, WIDTHS[""])


def prior_spread(cluster: Hardware) -> float:
    """Return the distance from which the accelerator's prior is as good as a measurement."""
    return _SAME + (_PRIOR if prior(cluster).is_measured else _UNMEASURED)


def kinds_of(model: Model) -> frozenset[str]:
    """Return those of UNMEASURED_KINDS that describe the model."""
    adapted = ("adapters",) if model.trained_share < 1 else ()
    return frozenset({model.kind, *adapted} & UNMEASURED_KINDS.keys())


def unmeasured_words(kind: str) -> str:
    factor = UNMEASURED_KINDS[kind]
    return f"nobody published a rate with {kind}: a range ends {factor:g} times farther than a dense model's"


def _kinds_beyond(model: Model, origin: MeasuredAt | None) -> frozenset[str]:
    return kinds_of(model) - (origin.kinds if origin else frozenset())


def _same(*, is_own: bool) -> float:
    return _SAME if is_own else _SAME + _OTHER_SOURCE


def distance(model: Model, cluster: Hardware, layout: Layout, origin: MeasuredAt) -> float:
    """Return how far a measurement is from a configuration."""
    tokens = layout.micro_batch * model.sequence_length
    far = _same(is_own=origin.is_own)
    width = _WIDTH if prior(cluster).narrow_width is not None else _UNSHAPED_WIDTH
    far += width * abs(math.log(model.hidden_size / origin.hidden_size))
    far += _LENGTH * abs(math.log(model.sequence_length / origin.sequence_length))
    far += _DEVICES * abs(math.log2(cluster.devices / origin.devices))
    far += _TOKENS * min(_MOST_TOKENS, abs(math.log(tokens / origin.tokens)))
    far += _TENSOR * abs(math.log2(layout.tensor / origin.tensor))
    far += _PIPELINE * abs(math.log2(layout.pipeline / origin.pipeline))
    far += _OTHER_ENGINE * (_is_sharded(layout.sharding) != origin.is_sharded)
    far += _OTHER_CHECKPOINTING * (layout.checkpointing != origin.checkpointing)
    return far + _OTHER_MASK * (model.causal != origin.causal)


def nearness(model: Model, layout: Layout, origin: MeasuredAt) -> str:
    """Return the differences between a measurement and a configuration in words, except in devices."""
    facts = (
        ("width", model.hidden_size, origin.hidden_size),
        ("tokens of a sequence", model.sequence_length, origin.sequence_length),
        ("tokens of a micro-batch", layout.micro_batch * model.sequence_length, origin.tokens),
        ("sharding of weights", *(_yes(each) for each in (_is_sharded(layout.sharding), origin.is_sharded))),
        ("checkpointing", layout.checkpointing, origin.checkpointing),
        ("causal mask", _yes(model.causal), _yes(origin.causal)),
    )
    found = [f"{what} {measured} instead of {asked}" for what, asked, measured in facts if asked != measured]
    found += [f"having no {kind}" for kind in sorted(_kinds_beyond(model, origin))]
    return f"it differs in {', '.join(found)}" if found else "it differs in nothing but devices"


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _is_sharded(sharding: str) -> bool:
    return sharding not in ("none", "zero1")


def interval_of(value: float, spread: float) -> tuple[float, float]:
    """Return the ends of an interval around a value, which are the same factor away on both sides."""
    factor = math.exp(spread)
    return value / factor, value * factor
