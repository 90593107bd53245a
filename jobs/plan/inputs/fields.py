"""The fields of an object that came out of a file, each of its own type or refused with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slipway.jobs.plan.search.refusals import CannotPlan
from slipway.jobs.words.text import printable

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One object of a file: where it stands, and what it holds."""

    where: str
    values: Mapping[str, object]

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise self._refusal(name, value, "a text")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number; 2.0 is one, and true is none."""
        value = self._value(name, default)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not int:
            raise self._refusal(name, value, "a whole number")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self._value(name, default)
        if type(value) not in (int, float) or not _is_finite(value):
            raise self._refusal(name, value, "a finite number")
        assert isinstance(value, int | float)
        return float(value)

    def seconds(self, name: str, default: int | None = None) -> int:
        """Return whole seconds: part of one is rounded up, so that a job never outlasts its time."""
        return math.ceil(self.number(name, default))

    def truth(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self._refusal(name, value, "true or false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refusal(name, value, "a list of texts")
        return tuple(value)

    def wholes(self, name: str) -> tuple[int, ...]:
        value = self.values.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self._refusal(name, value, "a list of whole numbers")
        return tuple(value)

    def text_by_name(self, name: str) -> dict[str, str]:
        value = self.values.get(name, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self._refusal(name, value, "an object of texts")
        return dict(value)

    def inner(self, name: str) -> Fields:
        value = self._value(name, None)
        if not isinstance(value, dict):
            raise self._refusal(name, value, "an object")
        return Fields(where=self._at(name), values=value)

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield each object of a list that has to be there."""
        yield from objects_in(self._value(name, None), self._at(name))

    def has(self, name: str) -> bool:
        """Tell whether the field is there and says anything: null says nothing."""
        return self.values.get(name) is not None

    def unknown(self, known: Sequence[str]) -> Iterator[str]:
        yield from (self._at(name) for name in self.values if name not in known)

    def refuse(self, name: str, allowed: str) -> CannotPlan:
        return self._refusal(name, self.values.get(name), allowed)

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        if value is not None:
            return value
        if default is None:
            raise CannotPlan(
                f"{self.where or 'the file'} has no {name}", hint=f"give {printable(self._at(name))} a value"
            )
        return default

    def _at(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def _refusal(self, name: str, value: object, allowed: str) -> CannotPlan:
        return CannotPlan(
            f"{printable(self._at(name))} is {_shown(value)}; allowed is {allowed}",
            hint="correct it in the file",
        )


def objects_in(value: object, where: str) -> Iterator[Fields]:
    if not isinstance(value, list):
        raise CannotPlan(f"{where} is {_shown(value)}; allowed is a list of objects", hint="write [{…}, {…}]")
    for place, item in enumerate(value):
        here = f"{where}[{place}]"
        if not isinstance(item, dict):
            raise CannotPlan(f"{here} is {_shown(item)}; allowed is an object", hint="write {…}")
        yield Fields(where=here, values=item)


def _is_finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]  # only numbers come here
    except OverflowError:  # a whole number beyond every float
        return False


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return "a number of more than 60 digits"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
