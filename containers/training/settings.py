"""How `--set key=value` is read, whatever the recipe: strictly, all mistakes told at once. No torch here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.values import shown
from slipway.containers.training.value_kinds import ValueKind

Values = dict[str, int | float | str | None]
Show = Callable[[str], str]  # a value in a message, without what must not be seen


class InvalidSettings(Refusal):
    """The settings are wrong: holds every mistake, found before a device is touched."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        several = f"{len(mistakes)} settings are wrong:\n  " + "\n  ".join(mistakes)
        super().__init__(several if len(mistakes) > 1 else mistakes[0])


def split_arguments(
    arguments: Sequence[str], kinds: Mapping[str, ValueKind], show: Show = shown
) -> tuple[dict[str, str], list[str]]:
    """Return the text given for each setting, and what is wrong with the rest."""
    given: dict[str, str] = {}
    mistakes = []
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals:
            mistakes.append(f"{show(argument)} is not key=value, such as seed=1")
        elif key not in kinds:
            mistakes.append(_unknown(key, kinds))
        elif key in given:
            mistakes.append(f"{key} is set twice, to {show(given[key])} and {show(text)}; set it once")
        else:
            given[key] = text
    return given, mistakes


def read_values(
    texts: Mapping[str, str], kinds: Mapping[str, ValueKind], show: Show = shown
) -> tuple[Values, list[str]]:
    """Return a value for every setting (None where no text is given), and what is wrong with the texts."""
    values: Values = dict.fromkeys(kinds)
    mistakes = []
    for key, text in texts.items():
        values[key] = kinds[key].read(text)
        if values[key] is None:
            mistakes.append(f"{key} is {show(text)}, and must be {kinds[key].wanted}")
    return values, mistakes


def _unknown(key: str, kinds: Mapping[str, ValueKind]) -> str:
    close = difflib.get_close_matches(key, kinds, n=1)
    told = f"did you mean {close[0]}?" if close else f"settings are {', '.join(kinds)}"
    return f"{shown(key)} is not a setting; {told}"
