"""Every token comes once in an epoch, in that epoch's order, which is the same for any number of readers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.containers.data.errors import DataError
from slipway.containers.data.megatron.index import TokenIndex, index_path
from slipway.containers.data.megatron.samples import GROUP_DOCUMENTS, Samples, Shuffle
from tests.containers.data.megatron.conftest import WriteTokens

LENGTH = 16
DOCUMENTS = 3 * GROUP_DOCUMENTS + 100  # several groups, and a last one that is not full


@pytest.fixture
def index(write_tokens: WriteTokens) -> TokenIndex:
    """Number all tokens, so that each tells where it came from; some documents are empty, one is long."""
    lengths = [number % 9 for number in range(DOCUMENTS)]
    lengths[7] = 40 * LENGTH
    ends = np.cumsum(lengths).tolist()
    return TokenIndex.open(
        write_tokens([range(end - length, end) for end, length in zip(ends, lengths, strict=True)])
    )


def test_an_epoch_holds_every_token_once_but_for_its_last_ones(index: TokenIndex) -> None:
    samples = Samples(index, LENGTH, seed=1)
    seen = Counter(samples.rows(range(samples.per_epoch))[:, :-1].ravel().tolist())
    assert set(seen.values()) == {1}
    assert len(index.tokens) - len(seen) <= LENGTH


def test_documents_are_whole_and_in_their_own_order(index: TokenIndex) -> None:
    """Join the samples again: each begins with the token that another one ends with."""
    samples = Samples(index, LENGTH, seed=1)
    rows = samples.rows(range(samples.per_epoch))
    following = {int(row[0]): row for row in rows}
    starts = set(following) - {int(row[-1]) for row in rows}
    (at,) = starts  # the epoch's first
    stream = []
    while at in following:
        stream += following[at][:-1].tolist()
        at = int(following[at][-1])
    begins = set(index.pointers // 4)
    assert len(stream) == samples.per_epoch * LENGTH
    assert all(right == left + 1 or right in begins for left, right in pairwise(stream))


def test_any_number_of_readers_that_resumes_anywhere_sees_the_same_samples(index: TokenIndex) -> None:
    batch, total = 24, 2 * Samples(index, LENGTH, seed=1).per_epoch + 24
    whole = Samples(index, LENGTH, seed=1).rows(range(total))
    for readers, taken in ((1, 48), (3, 240), (8, total - batch)):
        shares = [Samples(index, LENGTH, seed=1) for _ in range(readers)]
        found = [
            share.rows(range(taken + reader, taken + batch, readers)) for reader, share in enumerate(shares)
        ]
        together = np.empty((batch, LENGTH + 1), np.int64)
        for reader, rows in enumerate(found):
            together[reader::readers] = rows
        np.testing.assert_array_equal(together, whole[taken : taken + batch])


def test_epochs_and_seeds_have_orders_of_their_own(index: TokenIndex) -> None:
    first, other = Samples(index, LENGTH, seed=1), Samples(index, LENGTH, seed=2)
    epoch = first.rows(range(20))
    assert not np.array_equal(first.rows(range(first.per_epoch, first.per_epoch + 20)), epoch)
    assert not np.array_equal(other.rows(range(20)), epoch)


def test_the_order_is_that_of_every_release(write_tokens: WriteTokens) -> None:
    """The order is recorded here: changing it would change what a resumed training sees."""
    ends = np.cumsum([3, 1, 4, 1, 5, 9, 2, 6]).tolist()
    documents = [range(begin, end) for begin, end in pairwise([0, *ends])]
    samples = Samples(TokenIndex.open(write_tokens(documents)), 6, seed=42)
    assert samples.rows([0, 1, samples.per_epoch]).tolist() == [
        [27, 28, 29, 30, 9, 10, 11],
        [8, 0, 1, 2, 14, 15, 16],
        [19, 20, 21, 22, 0, 1, 2],
    ]


def test_one_long_document_makes_samples_by_itself(write_tokens: WriteTokens) -> None:
    samples = Samples(TokenIndex.open(write_tokens([range(33)])), 16, seed=0)
    rows = samples.rows(range(samples.per_epoch))
    assert sorted(rows.tolist()) == [list(range(17)), list(range(16, 33))]


def test_fewer_tokens_than_a_sample_are_refused(write_tokens: WriteTokens) -> None:
    with pytest.raises(
        DataError, match=r"holds 16 tokens, fewer than one sample of 16 \+ 1; prepare more text"
    ):
        Samples(TokenIndex.open(write_tokens([range(16)])), 16, seed=0)
    with pytest.raises(DataError, match="the length of samples is 0"):
        Samples(TokenIndex.open(write_tokens([range(16)])), 0, seed=0)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (34 + 4 * 3 + 8, "names tokens that do not exist"),  # the first byte of the second document
        (34 + 12 * 3 + 8, "is damaged"),  # where the second document begins
    ],
)
def test_an_index_that_is_damaged_in_its_middle_is_refused(
    write_tokens: WriteTokens, at: int, message: str
) -> None:
    prefix = write_tokens([range(20), range(20, 40), range(40, 60)])
    data = bytearray(index_path(prefix).read_bytes())
    data[at : at + 8] = (2**40).to_bytes(8, "little")
    index_path(prefix).write_bytes(data)
    with pytest.raises(DataError, match=message):
        Samples(TokenIndex.open(prefix), 8, seed=0).rows([0])


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_a_shuffle_holds_everything_once(count: int, seed: int) -> None:
    assert sorted(Shuffle(count, seed, 1, 0).at(np.arange(count)).tolist()) == list(range(count))


def test_a_shuffle_puts_anything_anywhere() -> None:
    """Count positions over many seeds; one standard deviation from even is 0.0065."""
    count, seeds = 11, 2000
    places = np.zeros((count, count))
    for seed in range(seeds):
        places[np.arange(count), Shuffle(count, seed, 1, 0).at(np.arange(count))] += 1
    assert np.abs(places / seeds - 1 / count).max() < 0.03


def test_a_shuffle_of_more_than_memory_holds_is_asked_place_by_place() -> None:
    shuffle = Shuffle(2**40 + 1, 3, 1, 0)
    found = shuffle.at(np.array([0, 1, 2**40]))
    assert len(set(found.tolist())) == 3
    assert found.max() <= 2**40
