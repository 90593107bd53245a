"""Makes foreign text safe to print, and decodes records of other versions: such text may hold anything."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from slipway.jobs.words.errors import SlipwayError

Say = Callable[[str], None]  # by which a slow function reports what it does

SHOWN_CHARACTERS = 2000  # foreign text may be megabytes long
_CENT, _LEAST = 0.01, 0.0001  # dollars
# Cc control, Cf format, Cs half a pair, Zl and Zp Unicode's own line breaks.
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Zero-width joiners spell words and emoji; every other format character can reorder or hide text.
HARMLESS = frozenset("\u200c\u200d")


def printable(text: str) -> str:
    """Escape everything that could control a terminal, forge a line or flood the screen."""
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS]}… ({len(text) - SHOWN_CHARACTERS} more characters)"
    return text if text.isprintable() else "".join(map(_printable_character, text))


def words(value: object) -> str:
    """Return a value as readable text; None reads as unknown."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(words(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={words(item)}" for key, item in value.items())
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def money(usd: float) -> str:
    """Format an amount of dollars: cents, or below a cent four digits, since 0.00 would read as nothing."""
    if usd == 0 or abs(usd) >= _CENT:
        return f"{usd:,.2f}" if usd else "0"
    small = f"{usd:.4f}".rstrip("0")
    return small if float(small) else f"less than {_LEAST}"


def dollars(value: object) -> str:
    """Format the amount of a table's column; a price is shown as it is published, by `words`."""
    assert isinstance(value, int | float), f"an amount is a number, not {type(value).__name__}"
    return money(value)


def duration(hours: float) -> str:
    """Format hours; shorter times are given in minutes or seconds."""
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.1f} min" if hours * 60 >= 1 else f"{hours * 3600:.0f} s"


def moment(value: object) -> str:
    """Format a point in time to the second, always in UTC."""
    assert isinstance(value, datetime), f"a moment is a datetime, not {type(value).__name__}"
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def terminal_columns(text: str) -> int:
    """Return the width of a text in a terminal: ideographs take two columns, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def padded(text: str, width: int, align: Literal["left", "right"] = "left") -> str:
    spaces = " " * (width - terminal_columns(text))
    return spaces + text if align == "right" else text + spaces


def _printable_character(character: str) -> str:
    if character in HARMLESS or unicodedata.category(character) not in UNPRINTABLE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def decode_json(text: str | bytes) -> Any:
    """Decode foreign JSON; raise ValueError for a text that is no JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("it holds a number of thousands of digits") from None


class NewerRecord(SlipwayError):
    """A newer Slipway wrote this record, so this one must neither judge nor overwrite it."""


def refuse_newer(schema: object, known: int, where: str) -> None:
    """Refuse a record of a later schema, before its fields are judged: it may have other fields."""
    if type(schema) is int and schema > known:
        raise NewerRecord(
            f"{where} has schema {schema}, but this Slipway reads {known}",
            hint="a newer Slipway wrote it: use that version or a newer one",
        )
