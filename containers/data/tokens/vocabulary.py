"""A WordPiece vocabulary: one entry per line, its line its number. Read, checked, and known by its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from slipway.containers.data.errors import DataError
from slipway.containers.runtime.named_files import UnusableFile, read_bytes

PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL = (PAD, UNKNOWN, CLS, SEP, MASK)
MOST_ENTRIES = 1_000_000
MOST_BYTES = 64 << 20  # BERT's has 232 kB


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    entries: tuple[str, ...]
    name: str = "vocabulary"
    numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {entry: number for number, entry in enumerate(self.entries)})
        missing = [entry for entry in SPECIAL if entry not in self.numbers]
        if missing:
            lines = len(self.entries)
            raise DataError(
                f"{self.name} is not a WordPiece vocabulary: {missing[0]} is not in its {lines} lines",
                hint="give BERT's vocab.txt, one entry per line",
            )
        self._check_lines()

    def _check_lines(self) -> None:
        for number, entry in enumerate(self.entries):
            if not entry or any(character.isspace() for character in entry):
                raise DataError(
                    f"{self.name}:{number + 1} is {entry!r}", hint="an entry has no blanks and is not empty"
                )
            if self.numbers[entry] != number:
                raise DataError(
                    f"{self.name}:{self.numbers[entry] + 1} repeats {entry!r} of line {number + 1}",
                    hint="every entry stands once",
                )

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.entries).encode()).hexdigest()


def read_vocabulary(path: Path) -> Vocabulary:
    try:
        return parse_vocabulary(str(path), read_bytes(path, MOST_BYTES))
    except UnusableFile as error:
        raise DataError(f"the vocabulary {error.message}", hint=error.hint) from error


def parse_vocabulary(name: str, content: bytes) -> Vocabulary:
    """Parse vocab.txt; `name` is where it was read, for messages."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: byte {error.start} is not UTF-8", hint="give BERT's vocab.txt") from error
    # The tokenizers library strips what trails an entry, carriage returns among it.
    entries = tuple(line.rstrip() for line in text.removesuffix("\n").split("\n"))
    if len(entries) > MOST_ENTRIES:
        raise DataError(f"{name} has {len(entries)} lines", hint=f"a vocabulary has at most {MOST_ENTRIES}")
    return Vocabulary(entries=entries, name=name)


def write_vocabulary(vocabulary: Vocabulary, path: Path) -> None:
    path.write_text("".join(f"{entry}\n" for entry in vocabulary.entries), encoding="utf-8")
