"""Write unicode.csv: what the tokenizers library does to each code point, found by trying them all.

Run it after a new release of that library: python -m slipway.containers.data.text.refresh_unicode
Python's unicodedata would give other tokens: the library's tables are older (normalisation of Unicode 9,
categories of Unicode 8).
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Rule = tuple[str, str]
# Marks that survive accent stripping, of the combining classes 226, 9 and 7. A character that changes places
# with one of them has a combining class, and a character that keeps two of them in order is a starter.
HIGH, MIDDLE, LOW = "\U0001d16d", "\u1b44", "\U00011446"
HANGUL = range(0xAC00, 0xD7A4)


def refresh(path: Path) -> None:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalise: Callable[[str], str] = BertNormalizer(lowercase=True).normalize_str
    split = BertPreTokenizer().pre_tokenize_str

    def is_punctuation(character: str) -> bool:
        return [word for word, _ in split(f"a{character}a")] == ["a", character, "a"]

    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    results = {ord(character): normalise(character) for character in characters}
    outputs = sorted({character for result in results.values() for character in result} - {" "})
    rows = [
        *ranges((code, rule(normalise, code, result)) for code, result in results.items()),
        *ranges((ord(output), ("punctuation", "")) for output in outputs if is_punctuation(output)),
        *ranges(
            (ord(output), ("class", str(unicodedata.combining(output))))
            for output in outputs
            if is_ordered(normalise, output)
        ),
    ]
    with path.open("w", newline="", encoding="ascii") as file:
        csv.writer(file, lineterminator="\n").writerows([("first", "last", "does", "value"), *rows])


def rule(normalise: Callable[[str], str], code: int, result: str) -> Rule:
    """Return the rule for one code point: "keep", or a key of RULES in words.py with its value."""
    character = chr(code)
    if result == character:
        return "keep", ""
    if result == "":
        swaps = normalise(HIGH + character + LOW) == LOW + HIGH
        return ("drop" if swaps else "break"), ""
    if code in HANGUL:
        return "hangul", ""
    if len(result) == 3 and result[0] == result[-1] == " ":
        return "pad", shift(code, result[1])
    if len(result) == 1:
        return "shift", shift(code, result)
    return "become", " ".join(f"{ord(character):X}" for character in result)


def shift(code: int, character: str) -> str:
    return str(ord(character) - code)


def is_ordered(normalise: Callable[[str], str], character: str) -> bool:
    """Return True if the library reorders the character: it ignores classes newer than its tables."""
    return unicodedata.combining(character) != 0 and any(
        normalise(pair) != pair
        for other in (HIGH, MIDDLE, LOW)
        for pair in (character + other, other + character)
    )


def ranges(rules: Iterable[tuple[int, Rule]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield one row for neighbouring code points with the same rule; "keep" needs no row."""
    first, last, current = 0, -2, ("keep", "")
    for code, found in [*rules, (-1, ("keep", ""))]:
        if found == current and code == last + 1:
            last = code
            continue
        if current[0] != "keep":
            yield f"{first:X}", f"{last:X}", *current
        first, last, current = code, code, found


if __name__ == "__main__":
    refresh(Path(__file__).with_name("unicode.csv"))
