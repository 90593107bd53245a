"""Rows that lie end to end are scored as padded ones are, and only the label's words count."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from slipway.containers.data.glue.node_rows import EncodedRows
from slipway.containers.data.glue.texts import Texts
from slipway.containers.data.megatron.engines import parse_bpe_vocabulary
from slipway.containers.data.megatron.index import TokenIndex, index_path, tokens_path, write_index
from slipway.containers.data.megatron.node_tokens import NodeTokens
from slipway.containers.data.samples.texts import sample_vocabulary
from slipway.containers.models.decoder import DecoderShape, build_decoder
from slipway.containers.recipes.gptj_finetune.data import (
    RowLayout,
    Sentences,
    Tokeniser,
    TokenRows,
    text_rows,
)
from slipway.containers.recipes.gptj_finetune.evaluate import profile
from slipway.containers.recipes.gptj_finetune.model import CausalTask
from slipway.containers.training.layout import balanced
from tests.containers.training.engines.native.trainings import PROCESSOR

SHAPE = DecoderShape(
    family="gptj",
    layers=2,
    hidden=32,
    heads=4,
    intermediate=64,
    vocabulary=50,
    rotary_dimensions=4,
    has_head_bias=True,
    initial_spread=0.2,
)
TEXTS = Texts(first=["Good grief. ", "bad " * 40], labels=[1.0, 0.0])


def some_rows() -> TokenRows:
    draws = np.random.default_rng(0)
    lengths = np.array([4, 9, 9, 6])
    ends = np.cumsum(lengths)
    return TokenRows(
        ids=draws.integers(50, size=int(ends[-1])).astype(np.int32),
        begins=ends - lengths,
        ends=ends,
        firsts=np.array([1, 5, 8, 2]),
    )


def losses_and_gradients(layout: RowLayout) -> list[torch.Tensor]:
    model = build_decoder(SHAPE, seed=1)
    inputs = layout.inputs(some_rows().picked(np.array([2, 1, 3, 0])), PROCESSOR)
    loss = CausalTask().forward(model, inputs)[0]
    loss.backward()
    return [loss.detach(), *(parameter.grad for _, parameter in sorted(model.named_parameters()))]


@pytest.mark.parametrize("layout", [RowLayout(is_packed=True), RowLayout(is_packed=True, multiple=64)])
def test_packed_rows_have_the_losses_and_gradients_of_padded_ones(layout: RowLayout) -> None:
    padded = losses_and_gradients(RowLayout(is_packed=False))
    for ours, wanted in zip(losses_and_gradients(layout), padded, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


def test_the_padded_loss_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="the extra 'compare' is not installed")
    rows, model = some_rows(), build_decoder(SHAPE, seed=1)
    inputs = RowLayout(is_packed=False).inputs(rows.picked(np.array([2, 1, 3, 0])), PROCESSOR)
    words, labels = inputs["words"], torch.full((4, 8), -100)
    assert words is not None
    scored, given = inputs["scored"], inputs["labels"]
    assert scored is not None
    assert given is not None
    labels.view(-1)[scored] = given
    wanted = torch.nn.functional.cross_entropy(model(words).flatten(0, 1), labels.flatten())
    assert float(CausalTask().forward(model, inputs)[0].detach()) == pytest.approx(float(wanted.detach()))
    assert transformers.GPTJConfig().rotary_dim == 64


def test_only_the_label_s_word_counts_and_both_labels_are_candidates() -> None:
    tokeniser = Tokeniser(parse_bpe_vocabulary("sample", sample_vocabulary()))

    def rows(loss_on: str, *, are_candidates: bool = False) -> EncodedRows:
        return Sentences(tokeniser, 24, loss_on, are_candidates).encode(TEXTS)

    trained, candidates, whole = rows("label"), rows("label", are_candidates=True), rows("row")
    assert (trained.lengths - trained.firsts).tolist() == [1, 1]
    assert max(trained.lengths) <= 24 + 1
    last = candidates.ids[candidates.lengths.cumsum() - 1].tolist()
    assert last[:2] == last[2:]
    assert trained.ids[trained.lengths.cumsum() - 1].tolist() == [last[1], last[0]]  # positive, negative
    assert candidates.labels.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert whole.firsts.tolist() == [1, 1]


def test_what_larger_text_than_memory_makes_takes_little_memory(tmp_path: Path) -> None:
    count, length, most_bytes = 1 << 31, 2048, 64 << 20
    with tokens_path(tmp_path / "tokens").open("wb") as file:
        file.truncate(2 * count)
    write_index(index_path(tmp_path / "tokens"), np.uint16, [np.full(1 << 10, count >> 10, np.int32)])
    tracemalloc.start()
    try:
        tokens = NodeTokens(index=TokenIndex.open(tmp_path / "tokens"), digest="a digest")
        rows = text_rows("text", tokens, length)
        assert len(rows) == (count - 1) // length
        assert len(rows.identity) == 64
        chosen = rows.picked(np.array([0, len(rows) - 1]))
        inputs = RowLayout(is_packed=True).inputs(chosen, PROCESSOR)
        assert inputs["words"] is not None
        assert inputs["words"].shape == (1, 2 * length)
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def test_a_large_vocabulary_takes_layers_off_the_last_stage() -> None:
    def operations(work: object) -> float:
        with FlopCounterMode(display=False) as counter:
            work()  # type: ignore[operator]  # what is measured
        return float(counter.get_total_flops())

    shape = DecoderShape(
        family="gptj",
        layers=8,
        hidden=32,
        heads=4,
        intermediate=128,
        vocabulary=1600,
        rotary_dimensions=4,
        has_head_bias=True,
    )
    costs = profile(shape, PROCESSOR, (2, 16), recomputes=False, measure=operations)
    counts = balanced(costs, 2)
    assert counts[0] > counts[1]
    again = profile(shape, PROCESSOR, (2, 16), recomputes=True, measure=operations)
    assert again.layers[0] == pytest.approx(costs.layers[0] * 4 / 3, rel=0.05)
