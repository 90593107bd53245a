"""Cut samples of one length for a decoder from documents laid end to end, in another order each epoch.

    samples = Samples(TokenIndex.open(folder / "tokens"), length=2048, seed=1)
    rows = samples.rows(range(taken + rank, taken + batch, world))  # inputs rows[:, :-1], labels rows[:, 1:]

Sample `n` of a training depends only on the tokens, length, seed and n, so resuming needs only the number of
samples taken so far. Documents are shuffled, then samples, both over the whole corpus. That takes 8 bytes of
memory per 1024 documents, beside the pages of mapped files that the system keeps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import MADE_AGAIN, Ids, TokenIndex, index_path
from slipway.containers.data.tokens.rng import Stream

OF_DOCUMENTS, OF_SAMPLES = 7, 8  # the uses of random numbers here; rng.py and rows/loader.py have others
GROUP_DOCUMENTS = 1024
PASS_DOCUMENTS = 64 * GROUP_DOCUMENTS  # documents per pass while an epoch is laid out
KEPT_EPOCHS = 2  # a batch may cross from one epoch to the next
LONGEST = 1 << 24


class Samples:
    """Return samples by number, `length` + 1 tokens each; neighbours in the epoch's order share one token.

    Each epoch leaves out its last tokens, fewer than `length`; they differ from epoch to epoch.
    """

    def __init__(self, index: TokenIndex, length: int, seed: int) -> None:
        if not 1 <= length <= LONGEST:
            raise DataError(f"the length of samples is {length}", hint=f"give a length from 1 to {LONGEST}")
        self.index, self.length, self.seed = index, length, seed
        self.per_epoch = (len(index.tokens) - 1) // length
        if self.per_epoch < 1:
            raise DataError(
                f"{index.prefix} holds {len(index.tokens)} tokens, fewer than one sample of {length} + 1",
                hint="prepare more text, or make the samples shorter",
            )
        self._epochs: OrderedDict[int, EpochLayout] = OrderedDict()

    def rows(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Return these samples of the training, one per row; number `per_epoch` begins the second epoch."""
        found = np.empty((len(numbers), self.length + 1), np.int64)
        for row, number in zip(found, numbers, strict=True):
            epoch, sample = divmod(number, self.per_epoch)
            row[:] = self.sample(epoch, sample)
        return found

    def sample(self, epoch: int, number: int) -> NDArray[np.int64]:
        """Return one sample of one epoch."""
        if not 0 <= number < self.per_epoch or epoch < 0:
            raise DataError(
                f"there is no sample {number} of epoch {epoch}",
                hint=f"an epoch has samples 0 to {self.per_epoch - 1}",
            )
        if epoch not in self._epochs:
            self._epochs[epoch] = EpochLayout(self.index, self.per_epoch, self.seed, epoch)
            if len(self._epochs) > KEPT_EPOCHS:
                self._epochs.popitem(last=False)
        layout = self._epochs[epoch]
        place = int(layout.samples.at(np.array([number]))[0])
        return layout.stretch(place * self.length, self.length + 1)


class EpochLayout:
    """Lay the documents of one epoch end to end; only the ends of groups of documents are stored."""

    def __init__(self, index: TokenIndex, samples: int, seed: int, epoch: int) -> None:
        self._index = index
        self._documents = Shuffle(index.documents, seed, OF_DOCUMENTS, epoch)
        self.samples = Shuffle(samples, seed, OF_SAMPLES, epoch)
        sums: list[NDArray[np.int64]] = []
        for first in range(0, index.documents, PASS_DOCUMENTS):
            _, lengths = self._group(first, PASS_DOCUMENTS)
            sums.append(np.add.reduceat(lengths, np.arange(0, len(lengths), GROUP_DOCUMENTS)))
        self._ends = np.cumsum(np.concatenate(sums))
        if self._ends[-1] != len(index.tokens):
            described, there = int(self._ends[-1]), len(index.tokens)
            raise _damaged(
                index, f"its documents have {described:,} tokens together, but there are {there:,}"
            )

    def stretch(self, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` tokens from position `start` of the epoch."""
        parts: list[Ids] = []
        group = int(np.searchsorted(self._ends, start, side="right"))
        skipped = start - (int(self._ends[group - 1]) if group else 0)
        while count:
            begins, lengths = self._group(group * GROUP_DOCUMENTS, GROUP_DOCUMENTS)
            ends = np.cumsum(lengths)
            before = ends - lengths
            stop = min(skipped + count, int(ends[-1]))
            # The documents of the group in which tokens `skipped` to `stop` lie, and those tokens of each.
            first = int(np.searchsorted(ends, skipped, side="right"))
            last = int(np.searchsorted(ends, stop, side="left"))
            cuts = slice(first, last + 1)
            froms = begins[cuts] + np.maximum(skipped - before[cuts], 0)
            tos = begins[cuts] + np.minimum(stop - before[cuts], lengths[cuts])
            tokens = self._index.tokens
            parts.extend(tokens[begin:end] for begin, end in zip(froms.tolist(), tos.tolist(), strict=True))
            count, skipped, group = count - (stop - skipped), 0, group + 1
        return np.concatenate(parts).astype(np.int64)

    def _group(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        places = np.arange(first, min(first + count, self._index.documents))
        try:
            begins, lengths = self._index.stretches(self._documents.at(places))
        except IndexError:
            raise _damaged(self._index, "it names sequences that do not exist") from None
        if min(lengths.min(), begins.min()) < 0 or (begins + lengths).max() > len(self._index.tokens):
            raise _damaged(self._index, "it names tokens that do not exist")
        return begins, lengths


def _damaged(index: TokenIndex, why: str) -> DataError:
    return DataError(f"{index_path(index.prefix)} is damaged: {why}", hint=MADE_AGAIN)


# A permutation that is computed position by position, without a table: memory does not grow with its length.
ROUNDS = 4


class Shuffle:
    """Permute 0..count-1 in an order that `seeds` decide, the same on every machine.

    Each round is a bijection of the numbers below a power of two: add, multiply by an odd number, and fold
    the upper half of the bits into the lower half. A result outside 0..count-1 is permuted again until it is
    inside; at least half of all are so at once.
    """

    def __init__(self, count: int, *seeds: int) -> None:
        bits = max(2, (count - 1).bit_length())
        stream = Stream(*seeds)
        self._count = np.uint64(count)
        self._mask, self._half = np.uint64((1 << bits) - 1), np.uint64((bits + 1) // 2)
        self._rounds = [(np.uint64(stream.draw()), np.uint64(stream.draw() | 1)) for _ in range(ROUNDS)]

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers at these positions, each from 0 to count-1."""
        found = self._mixed(places.astype(np.uint64))
        while len(outside := np.flatnonzero(found >= self._count)):
            found[outside] = self._mixed(found[outside])
        return found.astype(np.int64)

    def _mixed(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        with np.errstate(over="ignore"):
            for added, factor in self._rounds:
                values = (values + added) * factor & self._mask
                values ^= values >> self._half
        return values
