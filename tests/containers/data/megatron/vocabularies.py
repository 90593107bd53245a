"""Small BPE vocabularies of the published shapes: GPT-2's, and GPT-NeoX's with its runs of blanks."""

from __future__ import annotations

from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

END = "<|endoftext|>"
LEARNED = (
    "the quick brown fox jumps over the lazy dog, and it's we'll they've 1984. ",
    "a naïve café — 東京\n",
) * 20


@cache
def gpt2(entries: int = 320) -> str:
    """Train a byte-level BPE; return its tokenizer.json."""
    return _trained(entries).to_str()


@cache
def neox() -> str:
    """Return a vocabulary with NFC and added tokens of blanks, as Pythia and GPT-NeoX have."""
    tokenizer = _trained(320)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * length, normalized=True) for length in range(24, 1, -1)])
    return tokenizer.to_str()


def _trained(entries: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=entries, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LEARNED, trainer)
    return tokenizer
