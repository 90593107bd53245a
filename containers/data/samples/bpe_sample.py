"""A byte-level BPE vocabulary for made-up tasks, as a tokenizer.json: bytes, and each word as one token.

A word's merges add one letter after the other to the space before it, so none of them stands in the way of
another word's.
"""

from __future__ import annotations

import json
import random
from functools import cache

from slipway.containers.data.samples.glue_sample import make_words

END_OF_DOCUMENT = "<|endoftext|>"
_OTHER_WORDS = ("Sentiment", "negative", "positive")
_SPACE = "Ġ"
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@cache
def sample_vocabulary() -> bytes:
    """Return the tokenizer.json of the made-up words of seed 1, which is the samples' own."""
    merges: dict[tuple[str, str], None] = {}
    for word in (*make_words(random.Random(1)), *_OTHER_WORDS):  # noqa: S311  # words, not secrets
        for end in range(len(word)):
            merges[_SPACE + word[:end], word[end]] = None
    entries = [END_OF_DOCUMENT, *_byte_letters(), *("".join(pair) for pair in merges)]
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = {
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": END_OF_DOCUMENT, "special": True, **plain}],
        "pre_tokenizer": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "vocab": {entry: number for number, entry in enumerate(entries)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()


def _byte_letters() -> list[str]:
    """Return the letter that stands for each byte: itself where it can be seen, else one from U+0100 on."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    unseen = [byte for byte in range(256) if byte not in seen]
    return [chr(byte if byte in seen else 256 + unseen.index(byte)) for byte in range(256)]
