"""Documents -> pairs of stretches of tokens -> masked rows, as native/examples.c makes them.

The algorithm is that of BERT's create_pretraining_data; the random numbers are ours, drawn in the same order
in both languages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.containers.data.tokens.engine import (
    KEPT_SHARE,
    MASK,
    REPLACED_SHARE,
    SHORT_SHARE,
    TokenSettings,
    threshold,
)
from slipway.containers.data.tokens.rng import Stream

OF_DOCUMENT, OF_ORDER, OF_ROW = 1, 2, 3  # what each stream of random numbers in a unit is for
IS_SHORT = threshold(SHORT_SHARE)
IS_MASKED = threshold(REPLACED_SHARE)
IS_MASKED_OR_KEPT = threshold(REPLACED_SHARE + KEPT_SHARE)


@dataclass(frozen=True, slots=True)
class Pair:
    first: range
    second: range
    is_random: bool
    number: int


@dataclass(frozen=True, slots=True)
class CorpusUnit:
    """Hold a unit of the corpus: sentences end at these tokens, documents at these sentences."""

    sentences: list[int]
    documents: list[int]

    def halved(self) -> CorpusUnit:
        """Split a lone document, so that its other half can provide the random sentences."""
        if len(self.documents) != 1 or self.documents[0] < 2:
            return self
        return CorpusUnit(self.sentences, [self.documents[0] // 2, self.documents[0]])

    def document(self, number: int) -> range:
        return range(self.documents[number - 1] if number else 0, self.documents[number])

    def tokens(self, begin: int, end: int) -> range:
        """Return the tokens of sentences begin..end."""
        return range(self.sentences[begin - 1] if begin else 0, self.sentences[end - 1])


def make_pairs(stretch: CorpusUnit, settings: TokenSettings, stream: int) -> list[Pair]:
    if len(stretch.documents) < 2:
        return []
    found = [
        pair
        for duplicate in range(settings.duplicates)
        for document in range(len(stretch.documents))
        for pair in _pairs_of(stretch, document, settings, Stream(stream, OF_DOCUMENT, document, duplicate))
    ]
    pairs = [
        Pair(first, second, is_random, number) for number, (first, second, is_random) in enumerate(found)
    ]
    order = Stream(stream, OF_ORDER, 0)
    for left in range(len(pairs), 1, -1):
        other = order.below(left)
        pairs[left - 1], pairs[other] = pairs[other], pairs[left - 1]
    return pairs


Found = tuple[range, range, bool]


def _pairs_of(stretch: CorpusUnit, document: int, settings: TokenSettings, stream: Stream) -> Iterator[Found]:
    target = most = settings.row_tokens - 3
    if stream.draw() < IS_SHORT:
        target = 2 + stream.below(most - 1)
    sentences = stretch.document(document)
    first = end = sentences.start
    while end < sentences.stop:
        end += 1
        if end < sentences.stop and len(stretch.tokens(first, end)) < target:
            continue
        gathered = end - first
        used = 1 if gathered < 2 else 1 + stream.below(gathered - 1)
        a = stretch.tokens(first, first + used)
        is_random = gathered == 1 or bool(stream.draw() >> 63)
        if is_random:
            b = _random_stretch(stretch, document, target - len(a), stream)
        else:
            b, used = stretch.tokens(first + used, end), gathered
        yield (*truncated(a, b, most, stream), is_random)
        first = end = first + used


def _random_stretch(stretch: CorpusUnit, document: int, wanted: int, stream: Stream) -> range:
    other = stream.below(len(stretch.documents) - 1)
    sentences = stretch.document(other + (other >= document))
    begin = sentences.start + stream.below(len(sentences))
    end = begin + 1
    while end < sentences.stop and len(stretch.tokens(begin, end)) < wanted:
        end += 1
    return stretch.tokens(begin, end)


def truncated(a: range, b: range, most: int, stream: Stream) -> tuple[range, range]:
    """Shorten the longer stretch at a random end until both fit; b if they are equally long."""
    excess = max(0, len(a) + len(b) - most)
    alone = min(excess, abs(len(a) - len(b)))
    lost_a, lost_b = (excess - alone) // 2, (excess - alone + 1) // 2
    if len(a) > len(b):
        lost_a += alone
    else:
        lost_b += alone
    return _shortened(a, lost_a, stream), _shortened(b, lost_b, stream)


def _shortened(stretch: range, lost: int, stream: Stream) -> range:
    front, left = 0, lost
    while left:
        bits = min(left, 64)
        front += (stream.draw() & (1 << bits) - 1).bit_count()
        left -= bits
    return stretch[front : len(stretch) - (lost - front)]


def mask(ids: list[int], pair: Pair, settings: TokenSettings, stream: int) -> tuple[list[int], list[int]]:
    """Mask `ids` in place; return where, and what was there."""
    random = Stream(stream, OF_ROW, pair.number)
    candidates = len(pair.first) + len(pair.second)
    places = [
        1 + candidate + (candidate >= len(pair.first))
        for candidate in chosen(candidates, settings.masked_of_length()[candidates + 3], random)
    ]
    labels = [ids[place] for place in places]
    for place in places:
        fate = random.draw()
        if fate < IS_MASKED:
            ids[place] = settings.vocabulary.numbers[MASK]
        elif fate >= IS_MASKED_OR_KEPT:
            ids[place] = random.below(len(settings.vocabulary.entries))
    return places, labels


def chosen(candidates: int, count: int, random: Stream) -> list[int]:
    """Choose `count` of `candidates`, each set alike (Floyd, "A sample of brilliance", Comm. ACM 30,
    1987)."""
    found: set[int] = set()
    for last in range(candidates - count, candidates):
        at = random.below(last + 1)
        found.add(last if at in found else at)
    return sorted(found)
