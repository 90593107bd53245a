"""What examples are made: the two phases, and the numbers of BERT's create_pretraining_data.

A new phase is one entry of PHASES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.containers.data.errors import DataError
from slipway.containers.data.tokens.vocabulary import PAD, Vocabulary

# Devlin et al., "BERT" (2019), appendix A.1 and A.2, and its published create_pretraining_data.py.
SHORT_SHARE = 0.1
MASKED_SHARE = 0.15
REPLACED_SHARE = 0.8
KEPT_SHARE = 0.1  # the rest becomes a random token
LONGEST_ROW_TOKENS = 512  # native/core.h: MAX_ROW
# Text without a full stop is cut here, so that it still makes examples; no row has room for more anyway.
LONGEST_SENTENCE_TOKENS = 1024
MOST_DUPLICATES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    row_tokens: int
    predictions: int


PHASES: Mapping[int, Phase] = {
    1: Phase(row_tokens=128, predictions=20),
    2: Phase(row_tokens=512, predictions=80),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    phase: int
    vocabulary: Vocabulary
    seed: int
    duplicates: int
    cased: bool = False
    has_sentence_per_line: bool = False

    def __post_init__(self) -> None:
        _check("--phase", self.phase, min(PHASES), max(PHASES))
        _check("--duplicates", self.duplicates, 1, MOST_DUPLICATES)
        _check("--seed", self.seed, 0, 2**63 - 1)
        # Training takes the word 0 for a place without one, so it would never be learned.
        if number := self.vocabulary.numbers[PAD]:
            raise DataError(
                f"{self.vocabulary.name}:{number + 1} is {PAD}, and pre-training needs it in line 1",
                hint="give BERT's vocab.txt, or move that line to the top",
            )

    @property
    def row_tokens(self) -> int:
        return PHASES[self.phase].row_tokens

    @property
    def predictions(self) -> int:
        return PHASES[self.phase].predictions

    def masked_of_length(self) -> list[int]:
        """Return how many tokens are predicted in a row that uses 0, 1, 2 … of its places."""
        return [
            min(self.predictions, max(1, round(used * MASKED_SHARE))) for used in range(self.row_tokens + 1)
        ]


def threshold(share: float) -> int:
    """Return the bound that a random 64-bit number is below in this share of all draws."""
    return round(share * 2**64)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise DataError(f"{name} is {value}", hint=f"give a number from {least} to {most}")
