"""The hint for a name that does not exist: the nearest one that does."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str, most: int = 1) -> str:
    """Suggest the known names that are nearest to the word, or say `otherwise` if none is near."""
    close = get_close_matches(word, list(known), n=most)
    return f"did you mean {' or '.join(close)}?" if close else otherwise
