"""Tokens are masked, replaced and paired as defined, within what chance allows.

Bounds are 5 standard deviations of the statistic, which a right program crosses once in two million runs; the
seed is fixed, so this one never does.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from slipway.containers.data.tokens.engine import SPECIAL, RowBlock, TokenSettings, Vocabulary
from slipway.containers.data.tokens.engine_native import NativeEngine

WORDS = 1000
VOCABULARY = Vocabulary(entries=(*SPECIAL, ".", *(f"w{number:03}" for number in range(WORDS))))
FIRST_WORD = len(SPECIAL) + 1
DOCUMENTS, SENTENCES = 800, 12
Rows = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int32]]]
FIVE_SIGMA = 5.0


def corpus() -> bytes:
    """Sentences of 8 to 24 words, none of which starts anew: documents are known by their words' numbers."""
    random = np.random.default_rng(3)
    documents = []
    for _ in range(DOCUMENTS):
        lengths = random.integers(8, 25, SENTENCES)
        documents.append(
            "\n".join(
                " ".join(f"w{n:03}" for n in random.integers(0, WORDS, size)) + " ." for size in lengths
            )
        )
    return "\n\n".join(documents).encode()


@pytest.fixture(scope="module")
def engine_and_rows() -> tuple[NativeEngine, Rows]:
    settings = TokenSettings(phase=1, vocabulary=VOCABULARY, seed=5, duplicates=10)
    engine = NativeEngine(settings)
    engine.add(corpus(), 1)
    count = engine.pair(123)
    block = RowBlock(count, settings.row_tokens, settings.predictions)
    engine.fill(0, count, block, 0)
    return engine, {key: array.astype(np.int32) for key, array in block.arrays.items()}


@pytest.fixture(scope="module")
def rows(engine_and_rows: tuple[NativeEngine, Rows]) -> Rows:
    return engine_and_rows[1]


def assert_share(found: int, of: int, share: float) -> None:
    bound = FIVE_SIGMA * (share * (1 - share) / of) ** 0.5
    assert abs(found / of - share) < bound, f"{found} of {of} is {found / of:.4f}, not {share} ± {bound:.4f}"


def masked(
    rows: Rows,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return what stands at each masked place, and what stood there."""
    positions, labels = rows["masked_lm_positions"], rows["masked_lm_ids"]
    row, column = np.nonzero(positions)
    return rows["input_ids"][row, positions[row, column]], labels[row, column]


def test_as_many_tokens_are_masked_as_the_definition_says(rows: Rows) -> None:
    used = rows["input_mask"].sum(axis=1)
    expected = np.minimum(20, np.maximum(1, [round(int(length) * 0.15) for length in used]))
    assert (np.count_nonzero(rows["masked_lm_positions"], axis=1) == expected).all()


def test_masked_places_are_distinct_ordered_and_never_special(rows: Rows) -> None:
    positions, count = rows["masked_lm_positions"], np.count_nonzero(rows["masked_lm_positions"], axis=1)
    steps = np.diff(positions, axis=1)
    inside = np.arange(steps.shape[1]) < count[:, None] - 1
    assert (steps[inside] > 0).all()
    assert not np.isin(masked(rows)[1], [VOCABULARY.numbers[entry] for entry in SPECIAL]).any()


def test_eight_of_ten_become_the_mask_one_stays_and_one_becomes_random(rows: Rows) -> None:
    now, before = masked(rows)
    assert_share(
        int((now == VOCABULARY.numbers["[MASK]"]).sum()), len(now), 0.8 + 0.1 / len(VOCABULARY.entries)
    )
    assert_share(int((now == before).sum()), len(now), 0.1 + 0.1 / len(VOCABULARY.entries))


def test_random_replacements_come_from_the_whole_vocabulary(rows: Rows) -> None:
    now, before = masked(rows)
    replaced = now[(now != before) & (now != VOCABULARY.numbers["[MASK]"])]
    counts = np.bincount(replaced, minlength=len(VOCABULARY.entries))
    expected = len(replaced) / len(VOCABULARY.entries)
    assert counts.max() < expected + 6 * expected**0.5
    assert np.count_nonzero(counts) > 0.98 * len(VOCABULARY.entries)


def test_every_place_of_a_row_is_masked_alike(rows: Rows) -> None:
    """The end of the second part would show an uneven choice first."""
    full = rows["input_mask"].sum(axis=1) == 128
    counts = np.bincount(rows["masked_lm_positions"][full].ravel(), minlength=128)[1:127]
    share = counts.sum() / full.sum() / 125
    bound = 6 * (share * (1 - share) * full.sum()) ** 0.5
    ordinary = np.delete(counts, np.argsort(counts)[:1])  # one position is an inner separator more often
    assert abs(ordinary[:20].mean() - ordinary[-20:].mean()) < bound


def test_half_of_the_pairs_that_could_go_on_do(rows: Rows) -> None:
    """A pair of one sentence is always random; here only a document's last sentence can be left over."""
    labels = rows["next_sentence_labels"]
    assert 0.5 <= labels.mean() < 0.62
    assert set(np.unique(labels)) == {0, 1}


def test_a_continuation_continues_and_a_random_one_comes_from_another_document(
    engine_and_rows: tuple[NativeEngine, Rows],
) -> None:
    engine, rows = engine_and_rows
    document_of = document_of_trigrams(engine)
    original = rows["input_ids"].copy()
    row, column = np.nonzero(rows["masked_lm_positions"])
    original[row, rows["masked_lm_positions"][row, column]] = rows["masked_lm_ids"][row, column]
    agreeing = {0: 0, 1: 0}
    totals = {0: 0, 1: 0}
    for ids, segments, used, label in zip(
        original,
        rows["segment_ids"],
        rows["input_mask"].sum(axis=1),
        rows["next_sentence_labels"],
        strict=True,
    ):
        second = int(np.argmax(segments))
        parts = ids[1 : second - 1], ids[second : used - 1]
        if min(map(len, parts)) < 3:
            continue
        first, next_one = (document_of[tuple(part[:3].tolist())] for part in parts)
        totals[int(label)] += 1
        agreeing[int(label)] += bool(first & next_one)
    assert agreeing[0] == totals[0] > 1000
    assert (
        agreeing[1] < 0.001 * totals[1]
    )  # two documents share three words in a row once in a thousand, at most


def document_of_trigrams(engine: NativeEngine) -> dict[tuple[int, ...], set[int]]:
    tokens, sentences, documents = engine.numbers()
    found: dict[tuple[int, ...], set[int]] = {}
    begin = 0
    for number, last in enumerate(documents):
        end = sentences[last - 1]
        for at in range(begin, end - 2):
            found.setdefault(tuple(tokens[at : at + 3]), set()).add(number)
        begin = end
    return found


def defined_pairs(documents: list[list[int]], seed: int) -> list[tuple[int, bool]]:
    """The published algorithm in our words, on lengths of sentences alone: rows' lengths and is-random."""
    random = Random(seed)  # noqa: S311  # a simulation
    found = []
    for number, document in enumerate(documents):
        target = random.randint(2, 125) if random.random() < 0.1 else 125
        at, gathered = 0, []
        while at < len(document):
            gathered.append(document[at])
            if at == len(document) - 1 or sum(gathered) >= target:
                cut = random.randint(1, len(gathered) - 1) if len(gathered) > 1 else 1
                first = sum(gathered[:cut])
                is_random = len(gathered) == 1 or random.random() < 0.5
                if is_random:
                    other = random.choice([each for each in range(len(documents)) if each != number])
                    second = 0
                    for length in documents[other][random.randrange(len(documents[other])) :]:
                        second += length
                        if second >= target - first:
                            break
                    at -= len(gathered) - cut
                else:
                    second = sum(gathered[cut:])
                found.append((min(125, first + second) + 3, is_random))
                gathered = []
            at += 1
    return found


def test_lengths_and_pairs_are_those_of_the_published_algorithm(
    engine_and_rows: tuple[NativeEngine, Rows],
) -> None:
    engine, rows = engine_and_rows
    _, sentences, ends = engine.numbers()
    lengths = np.diff([0, *sentences]).tolist()
    documents = [lengths[begin:end] for begin, end in pairwise([0, *ends])]
    expected = [pair for seed in range(10) for pair in defined_pairs(documents, seed)]
    used, labels = rows["input_mask"].sum(axis=1), rows["next_sentence_labels"]
    ours = np.bincount(used, minlength=129) / len(used)
    theirs = np.bincount([length for length, _ in expected], minlength=129) / len(expected)
    # Kolmogorov and Smirnov: 1.63 at one in a hundred; rows of one document depend on each other, so twice
    # that.
    bound = 2 * 1.63 * (1 / len(used) + 1 / len(expected)) ** 0.5
    assert np.abs(np.cumsum(ours) - np.cumsum(theirs)).max() < bound
    # 8,000 walks of about three rows each: their number varies by less than one row per walk.
    assert abs(len(used) - len(expected)) < 5 * (2 * DOCUMENTS * 10) ** 0.5
    share = sum(is_random for _, is_random in expected) / len(expected)
    assert abs(labels.mean() - share) < FIVE_SIGMA * (2 * 0.25 / len(used)) ** 0.5


def test_truncation_takes_from_either_end_alike() -> None:
    from slipway.containers.data.tokens.rng import Stream
    from tests.containers.data.tokens.reference.pairs import truncated

    cut = [truncated(range(300), range(40), 125, Stream(1, 2, number))[0] for number in range(2000)]
    front = sum(stretch.start for stretch in cut)
    assert {len(stretch) for stretch in cut} == {85}
    assert_share(front, 2000 * 215, 0.5)
