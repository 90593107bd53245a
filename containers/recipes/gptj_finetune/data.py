"""GPT-J's data: turn texts into rows of tokens, cut them into batches, and make tensors of micro-batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipway.containers.data.errors import DataError
from slipway.containers.data.glue.node_rows import EncodedRows, Examples, node_rows
from slipway.containers.data.glue.tasks import TASKS, Split
from slipway.containers.data.glue.texts import TRAIN, Texts, open_table
from slipway.containers.data.megatron.engines import BpeEngine, BpeVocabulary, best_engine, open_engine
from slipway.containers.data.megatron.node_tokens import NodeTokens, node_tokens
from slipway.containers.data.sources.locations import public
from slipway.containers.data.tokens.rng import permutation
from slipway.containers.recipes.gptj_finetune.config import CUT_MULTIPLE, KEEPS_REST, GptjConfig
from slipway.containers.runtime.collective import Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.training.devices import Device
from slipway.containers.training.layout import BatchPlan, dealt, steps_of_epoch
from slipway.containers.training.report import mixed
from slipway.containers.training.start import address_of_input
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningData:
    train: TokenRows
    held_out: TokenRows | None
    wanted: NDArray[np.int64] | None  # labels of what is held out, which then has two rows for each


def open_data(config: GptjConfig, contract: LaunchContract, tokeniser: Tokeniser) -> TuningData:
    """Map the rows of the task's data, those to train on and those held out."""
    place = address_of_input(contract, config.data or config.task)
    if config.task == "sst2":

        def examples(split: Split, *, are_candidates: bool) -> Examples:
            table = open_table(place, SST2, split, bucket_owner=contract.account)
            loss_on = "label" if are_candidates else config.loss_on
            sentences = Sentences(tokeniser, config.length, loss_on, are_candidates)
            return node_rows(table, sentences, contract)

        (split,) = SST2.dev
        held_out = examples(split, are_candidates=True)
        return TuningData(
            train=TokenRows.of(examples(TRAIN, are_candidates=False)),
            held_out=TokenRows.of(held_out),
            wanted=held_out.labels[::2].astype(np.int64),
        )

    def rows(given: str) -> TokenRows:
        tokens = node_tokens(given, tokeniser.vocabulary, field=config.field, contract=contract)
        return text_rows(public(given), tokens, config.length)

    other = None if config.held_out is None else rows(address_of_input(contract, config.held_out))
    return TuningData(train=rows(place), held_out=other, wanted=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningBatches:
    """Make the batches of one reader, step after step."""

    rows: TokenRows
    batches: BatchOrder
    layout: RowLayout
    reader: int
    seed: int
    device: Device

    def after(self, step: int) -> Iterator[StepBatch]:
        """Return the batches from a step on, without end."""
        return map(self.step_batch, count(step))

    def step_batch(self, step: int) -> StepBatch:
        micro_batches, plan = self.batches.micro_batches(step), self.batches.plan
        mine = dealt(len(micro_batches), self.reader, plan.readers)
        picked = [self.rows.picked(each) for each in micro_batches]
        share = plan.readers / sum(int(rows.scored.sum()) for rows in picked)
        size = max(self.layout.size_of(picked[number].lengths) for number in mine)
        together = size if self.layout.has_one_size else 0
        return StepBatch(
            micro_batches=[
                MicroBatch(
                    inputs=self.layout.inputs(picked[number], self.device, together),
                    seed=mixed(self.seed, step * plan.micro_batches + number),
                    weight=int(picked[number].scored.sum()) * share,
                )
                for number in mine
            ],
            rows=plan.global_batch,
            tokens=sum(int(rows.lengths.sum()) for rows in picked),
        )


def row_layout(config: GptjConfig) -> RowLayout:
    return RowLayout(
        is_packed=config.rows == "packed",
        multiple=CUT_MULTIPLE if config.pipeline * config.tensor > 1 else 1,
        has_one_size=config.pipeline > 1,
    )


def candidate_inputs(data: TuningData, pairs: Rows, layout: RowLayout, device: Device) -> Inputs:
    """Return the inputs that measure some of what is held out: rows, or pairs of them with what is wanted."""
    assert data.held_out is not None, "only what is held out is measured on"
    if data.wanted is None:
        return layout.inputs(data.held_out.picked(pairs), device)
    both = data.held_out.picked(np.stack((2 * pairs, 2 * pairs + 1), axis=1).reshape(-1))
    owners = np.repeat(np.arange(len(both)), both.scored)
    return {
        **layout.inputs(both, device),
        "owners": torch.from_numpy(owners).to(device.place),
        "wanted": torch.from_numpy(data.wanted[pairs]).to(device.place),
    }


# The seed alone decides which rows make which micro-batch. A batch has random rows, the same in every layout.
# Within it they are sorted by length, so that little is padded. But a pipeline needs micro-batches of one
# size, so there each gets some rows of all lengths.
_OF_ROWS = 9  # what random numbers are for: containers/data/rows/loader.py has others

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchOrder:
    """Cut the rows of one training into batches. Rows left over in an epoch go to the next one."""

    lengths: Rows
    plan: BatchPlan
    seed: int
    is_even: bool  # micro-batches of a step have about as many tokens each

    @property
    def per_epoch(self) -> int:
        return steps_of_epoch(len(self.lengths), self.plan.global_batch, keeps_rest=KEEPS_REST)

    def micro_batches(self, step: int) -> list[Rows]:
        """Return the micro-batches of all readers, the longest rows first."""
        epoch, at = divmod(step, self.per_epoch)
        rows = _order(self, epoch)[at * self.plan.global_batch : (at + 1) * self.plan.global_batch]
        rows = rows[np.argsort(-self.lengths[rows], kind="stable")]
        count = self.plan.micro_batches
        if not self.is_even:
            return list(rows.reshape(count, -1))
        table = rows.reshape(-1, count)
        table[1::2] = table[1::2, ::-1]  # dealt to and fro: the longest of one turn, the shortest of the next
        return list(np.ascontiguousarray(table.T))


@lru_cache(maxsize=2)
def _order(batches: BatchOrder, epoch: int) -> Rows:
    return permutation(len(batches.lengths), batches.seed, _OF_ROWS, epoch)


# Rows of tokens of any length, the predictions in them that count, and their layout as a model's inputs.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRows:
    """Hold rows of one long array, which may be mapped; rows may share tokens."""

    ids: NDArray[np.integer[Any]]
    begins: Rows
    ends: Rows
    firsts: NDArray[np.integer[Any]]  # of each row the first token whose prediction counts
    identity: str = ""  # a digest of what is mapped

    @classmethod
    def of(cls, examples: Examples) -> TokenRows:
        begins = examples.begins
        return cls(
            ids=examples.ids,
            begins=begins[:-1],
            ends=begins[1:],
            firsts=examples.firsts,
            identity=examples.digest,
        )

    def __len__(self) -> int:
        return len(self.begins)

    def picked(self, chosen: Rows) -> TokenRows:
        """Return some of the rows, over the same tokens."""
        begins, ends, firsts = self.begins[chosen], self.ends[chosen], self.firsts[chosen]
        return TokenRows(ids=self.ids, begins=begins, ends=ends, firsts=firsts)

    @property
    def lengths(self) -> Rows:
        """Return how many tokens each row predicts from: all but its last."""
        return self.ends - self.begins - 1

    @property
    def scored(self) -> Rows:
        """Return how many predictions of each row count."""
        return self.ends - self.begins - self.firsts


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """Say how rows lie in a micro-batch: end to end or padded, and of which sizes micro-batches are."""

    is_packed: bool
    multiple: int = 1
    has_one_size: bool = False  # in each step

    def size_of(self, lengths: Sequence[int] | Rows) -> int:
        """Return what rows of these lengths are as wide as: all tokens, or the longest."""
        least = int(np.sum(lengths) if self.is_packed else np.max(lengths))
        return -(-least // self.multiple) * self.multiple

    def inputs(self, rows: TokenRows, device: Device, size: int = 0) -> dict[str, Tensor | None]:
        """Return words, the places in them that count, and what comes next there."""
        lengths = rows.lengths
        size = max(size, self.size_of(lengths))
        if self.is_packed:
            begins = np.cumsum(lengths) - lengths
        else:
            begins = np.arange(len(lengths), dtype=np.int64) * size
        words = np.zeros(size if self.is_packed else size * len(rows), dtype=np.int64)
        scored, labels = [], []
        for row, (at, length) in enumerate(zip(begins.tolist(), lengths.tolist(), strict=True)):
            tokens = rows.ids[rows.begins[row] : rows.ends[row]]
            words[at : at + length] = tokens[:-1]
            first = int(rows.firsts[row])
            scored.append(np.arange(at + first - 1, at + length))
            labels.append(tokens[first:])
        packed = None
        if self.is_packed:  # what is left of the size is a last row
            left = size - int(lengths.sum())
            packed = torch.from_numpy(np.append(lengths, left) if left else lengths.copy())
        return {
            "words": torch.from_numpy(words).view(1 if self.is_packed else len(rows), size).to(device.place),
            "scored": torch.from_numpy(np.concatenate(scored)).to(device.place),
            "labels": torch.from_numpy(np.concatenate(labels).astype(np.int64)).to(device.place),
            # On the processor, which decides by them what is computed.
            "lengths": packed,
        }


# Turn texts into rows of tokens: a sentence with the word for its label, or documents cut at a length.
SST2 = TASKS["sst2"]
PROMPT = " Sentiment:"  # stands behind the sentence
LABEL_WORDS = (" negative", " positive")  # by SST-2's labels
_AT_ONCE = 1024  # texts


class Tokeniser:
    """Turn texts into ids with the vocabulary of a model."""

    def __init__(self, vocabulary: BpeVocabulary) -> None:
        self.vocabulary = vocabulary
        name, _ = best_engine(vocabulary)
        self._engine: BpeEngine = open_engine(name, vocabulary.json)

    def each(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        found = (
            ids
            for at in range(0, len(texts), _AT_ONCE)
            for ids in self._engine.encode(texts[at : at + _AT_ONCE])
        )
        return [np.asarray(ids, dtype=np.int32) for ids in found]


@dataclass(frozen=True, slots=True)
class Sentences:
    """Make a row of each sentence and the word for its own label; or two of candidates, with either word."""

    tokeniser: Tokeniser
    length: int
    loss_on: str
    are_candidates: bool

    @property
    def identity(self) -> list[Json]:
        vocabulary = self.tokeniser.vocabulary.digest
        return ["sentences", vocabulary, self.length, self.loss_on, self.are_candidates]

    def encode(self, texts: Texts) -> EncodedRows:
        answers, rows, firsts, labels = self.tokeniser.each(LABEL_WORDS), [], [], []
        for prompt, label in zip(self._prompts(texts), texts.labels, strict=True):
            for answer in answers if self.are_candidates else [answers[int(label)]]:
                rows.append(np.concatenate((prompt, answer)))
                firsts.append(1 if self.loss_on == "row" else len(prompt))
                labels.append(label)
        return EncodedRows.of(rows, firsts, labels)

    def _prompts(self, texts: Texts) -> Iterator[NDArray[np.int32]]:
        """Yield sentences, cut so that all of a row fits, with what asks for their label."""
        tokeniser = self.tokeniser
        (prompt,) = tokeniser.each([PROMPT])
        room = self.length + 1 - len(prompt) - max(map(len, tokeniser.each(LABEL_WORDS)))
        if room < 1:
            raise DataError(
                f"length={self.length} leaves no room for a sentence before {PROMPT!r} and a label",
                hint=f"set length to {self.length - room + 2} or more",
            )
        for ids in tokeniser.each([text.strip() for text in texts.first]):
            yield np.concatenate((ids[:room], prompt))


def text_rows(name: str, tokens: NodeTokens, length: int) -> TokenRows:
    """Return rows over mapped tokens: documents end to end, cut at every `length` tokens."""
    ids = tokens.index.tokens
    count = (len(ids) - 1) // length
    if count < 1:
        raise DataError(
            f"{name} has {len(ids)} tokens, and a row has {length + 1}",
            hint="give more text, or set a smaller length",
        )
    begins: Rows = np.arange(count, dtype=np.int64) * length
    return TokenRows(
        ids=ids,
        begins=begins,
        ends=begins + length + 1,
        firsts=np.broadcast_to(np.int64(1), count),
        identity=hashlib.sha256(f"{tokens.digest} {length}".encode()).hexdigest(),
    )
