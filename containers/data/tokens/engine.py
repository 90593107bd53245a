"""What goes into the compiled core and comes out of it: counts of text, and room for rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError

SENTENCE_PER_LINE, TAGGED = 1, 2  # native/text.c

# Words that end in a full stop without ending a sentence; single letters (J., U.S., e.g.) need no entry.
_ABBREVIATIONS = (
    "Mr Mrs Ms Dr Prof Sr Jr St Mt Ft Gen Col Lt Sgt Capt Cmdr Adm Maj Rev Hon Gov Sen Rep Pres Messrs "
    "vs etc ca cf al approx est ed eds vol No Nos pp p Fig fig figs ch sec op cit viz "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Inc Ltd Co Corp Bros Dept Univ"
)
ABBREVIATIONS = tuple(_ABBREVIATIONS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            documents=self.documents + other.documents,
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            unknown=self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Hold room for some rows in the layout of the reference's HDF5 files; the names are its keys."""

    rows: int
    row_tokens: int
    predictions: int
    arrays: dict[str, NDArray[np.int32] | NDArray[np.int8]] = field(init=False)

    def __post_init__(self) -> None:
        layout = layout_of(self.row_tokens, self.predictions)
        arrays = {key: np.zeros((self.rows, *shape), kind) for key, (kind, shape) in layout.items()}
        object.__setattr__(self, "arrays", arrays)


def layout_of(
    row_tokens: int, predictions: int
) -> dict[str, tuple[type[np.int32] | type[np.int8], tuple[int, ...]]]:
    return {
        "input_ids": (np.int32, (row_tokens,)),
        "input_mask": (np.int8, (row_tokens,)),
        "segment_ids": (np.int8, (row_tokens,)),
        "masked_lm_positions": (np.int32, (predictions,)),
        "masked_lm_ids": (np.int32, (predictions,)),
        "next_sentence_labels": (np.int8, ()),
    }


def check_text_fits(counts: Counts, vocabulary: str) -> None:
    """Refuse text that the vocabulary splits badly (another language, or code) before hours are spent."""
    if counts.tokens >= 1000 and counts.unknown * 2 > counts.tokens:
        raise DataError(
            f"{counts.unknown} of {counts.tokens} tokens are unknown to {vocabulary}",
            hint="give the vocabulary that belongs to this text's language",
        )
