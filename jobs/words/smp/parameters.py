"""Reads, checks and writes the parameters of SageMaker's model-parallel library (SMP); has those of SMP v2.

A version of the library is a frozen dataclass whose fields have the library's names and defaults, and a Rules
for the allowed values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from types import NoneType
from typing import Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

from slipway.jobs.words.errors import InvalidConfig, Problem, did_you_mean

Value = str | int | float | bool


class InvalidSmp(InvalidConfig):
    """Reports every parameter that the library would refuse, before a job exists."""


class NoEqual(InvalidConfig):
    """Reports every parameter without an equivalent in the other form, each with what to do instead."""


class SmpParameters(Protocol):
    """Names what every version's parameters have in common."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


S = TypeVar("S", bound=SmpParameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Say which values a version of the library accepts, besides their types."""

    library: str  # the name for users
    least: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of the library's own


def decode_parameters(version: type[S], given: Mapping[str, object], rules: Rules) -> S:
    """Decode the `parameters` of a notebook; raise InvalidSmp with every name that the library lacks."""
    known = [one.name for one in fields(version)]
    values: dict[str, Any] = {}
    problems = []
    for name, value in given.items():
        own = rules.aliases.get(name, name)
        if own not in known:
            hint = did_you_mean(name, known, otherwise=f"{rules.library} takes {', '.join(known)}")
            problems.append(Problem(where=name, message=f"is no parameter of {rules.library}", hint=hint))
        elif values.setdefault(own, value) != value:
            message = f"is {value!r}, and {own}, its other name, is {values[own]!r}"
            problems.append(Problem(where=name, message=message, hint="set one of them"))
    refuse(problems)
    return version(**values)


def write_parameters(parameters: SmpParameters) -> dict[str, Value]:
    """Return the parameters that differ from the library's defaults, as they are sent."""
    return {name: value for name, value in asdict(parameters).items() if name in changed(parameters)}


def changed(parameters: SmpParameters) -> list[str]:
    """List the parameters that differ from the library's defaults."""
    return [one.name for one in fields(parameters) if getattr(parameters, one.name) != one.default]


def wrong_values(parameters: SmpParameters, rules: Rules) -> Iterator[Problem]:
    """Yield a problem for each value that has the wrong type, is too small or is an unknown word."""
    types = get_type_hints(type(parameters))
    for one in fields(parameters):
        assert one.default is not MISSING, f"{one.name} has a default of the library's"
        value, allowed = getattr(parameters, one.name), get_args(types[one.name]) or (types[one.name],)
        least, words = rules.least.get(one.name), rules.words.get(one.name)
        if type(value) not in allowed:
            yield _must_be(one.name, value, " or ".join(_IN_WORDS[kind] for kind in allowed))
        elif least is not None and value is not None and value < least:
            yield _must_be(one.name, value, f"{least} or more")
        elif words is not None and value not in words:
            yield _must_be(one.name, value, " or ".join(words))


def refuse(problems: Iterable[Problem]) -> None:
    """Raise InvalidSmp with all problems, if there are any."""
    if found := list(problems):
        raise InvalidSmp(found)


def refuse_without_equal(
    parameters: SmpParameters, instead: Mapping[str, str], where: str, also: Iterable[Problem] = ()
) -> None:
    """Raise NoEqual with every changed parameter that is in `instead`, which says what to do without it."""
    found = [*also]
    for name in changed(parameters):
        if name in instead:
            message = f"is {getattr(parameters, name)!r}, which has no equal in {where}"
            found.append(Problem(where=name, message=message, hint=instead[name]))
    if found:
        raise NoEqual(found)


_IN_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "True or False", NoneType: "None"}


def _must_be(name: str, value: object, wanted: str) -> Problem:
    return Problem(where=name, message=f"is {value!r}, and must be {wanted}")


# SMP v2, `torch.sagemaker`: its parameters, which are based on PyTorch's FSDP and have no pipeline. Names,
# defaults and limits are those of AWS's page "The SageMaker model parallel library v2 reference".
_DEGREES = ("tensor_parallel_degree", "context_parallel_degree", "expert_parallel_degree")
_RULES = Rules(
    library="SMP v2",
    least={**dict.fromkeys(_DEGREES, 1), "hybrid_shard_degree": 0, "activation_loading_horizon": 1},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmpV2:
    """Hold the hyperparameter `mp_parameters` of SMP v2; check it when it is made."""

    hybrid_shard_degree: int = 0  # 0: all it can, or as the script's FSDP says; 1: weights stay whole
    tensor_parallel_degree: int = 1
    context_parallel_degree: int = 1
    expert_parallel_degree: int = 1
    sm_activation_offloading: bool = True  # offloads only what the script wraps
    activation_loading_horizon: int = 2
    fsdp_cache_flush_warnings: bool = True
    allow_empty_shards: bool = False
    random_seed: int | None = None  # for draws of tensor and expert ranks; None: the library's own

    def __post_init__(self) -> None:
        refuse(wrong_values(self, _RULES))
        # With 0 the library finds the degree itself, which is at least that of context.
        shards, context = self.hybrid_shard_degree, self.context_parallel_degree
        if shards and context > shards:
            message = f"is {context}, above hybrid_shard_degree={shards}"
            hint = f"set hybrid_shard_degree to {context} or more"
            refuse([Problem(where="context_parallel_degree", message=message, hint=hint)])

    @classmethod
    def decode(cls, parameters: Mapping[str, object]) -> SmpV2:
        """Decode the `parameters` of an existing notebook."""
        return decode_parameters(cls, parameters, _RULES)

    def parameters(self) -> dict[str, Value]:
        """Return what is sent: all but the library's defaults."""
        return write_parameters(self)
