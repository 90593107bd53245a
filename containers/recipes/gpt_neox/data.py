"""GPT-NeoX's data: open tokens, check that they fit the model's vocabulary, and cut rows into micro-batches.

Rows have numbers, and a step alone decides the numbers that it takes, so a training resumes on any number of
ranks. All steps have the same shapes, so a device that compiles, compiles once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from slipway.containers.data.megatron.engines import (
    JSONS,
    PAIRS,
    BpeVocabulary,
    find_bpe_vocabulary,
    read_bpe_vocabulary,
)
from slipway.containers.data.megatron.index import TokenIndex
from slipway.containers.data.megatron.samples import Samples
from slipway.containers.data.megatron.work import VOCABULARY
from slipway.containers.models.published import ModelFolder
from slipway.containers.recipes.gpt_neox.config import RANDOM, GptNeoxConfig
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.devices import Device
from slipway.containers.training.layout import BatchPlan
from slipway.containers.training.loop import HeldOut
from slipway.containers.training.report import Say, mixed
from slipway.containers.training.start import Beginning, below_data
from slipway.containers.training.task import Inputs, MicroBatch, StepBatch

TokenRows = NDArray[np.int64]


class TokenSource(Protocol):
    """Return rows of tokens by number, each one token longer than the model's input."""

    def rows(self, numbers: Sequence[int]) -> TokenRows: ...


@dataclass(frozen=True, slots=True)
class RandomTokens:
    """Draw rows from a seed, to compile and to measure speed: they teach only how frequent a token is."""

    length: int
    seed: int
    vocabulary: int

    def rows(self, numbers: Sequence[int]) -> TokenRows:
        drawn = [
            np.random.default_rng(mixed(self.seed, number)).integers(self.vocabulary, size=self.length + 1)
            for number in numbers
        ]
        return np.stack(drawn)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Hold the source of the rows, and the facts that identify it."""

    name: str
    source: TokenSource
    identity: str
    vocabulary: int
    size: int | None = None  # rows of an epoch: those after them come again; None: none does

    def rows(self, numbers: Sequence[int]) -> TokenRows:
        """Return rows by number; refuse a token that the model does not know."""
        found = self.source.rows(numbers)
        if found.size and (found.max() >= self.vocabulary or found.min() < 0):
            worst = int(found.max() if found.max() >= self.vocabulary else found.min())
            raise Refusal(
                f"{self.name} has the token {worst}, but the model knows {self.vocabulary} tokens",
                hint=f"set vocabulary to {worst + 1} or more, or prepare the tokens with its own vocabulary",
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBatches:
    """Make the batches of one reader, step after step."""

    plan: BatchPlan
    reader: int
    seed: int
    device: Device

    @contextmanager
    def open(self, corpus: Corpus, beginning: Beginning) -> Iterator[Iterator[StepBatch]]:
        cursor = beginning.cursor
        if beginning.step and (not isinstance(cursor, dict) or cursor.get("corpus") != corpus.identity):
            raise Refusal(
                f"{beginning.folder} was trained on other tokens, or rows of another length, than "
                f"{corpus.name}",
                hint="resume with the data that it was trained on, or start again in another folder",
            )
        yield (self.step_batch(corpus, step) for step in count(beginning.step))

    def step_batch(self, corpus: Corpus, step: int) -> StepBatch:
        plan = self.plan
        own = plan.micro_batch * plan.accumulation_steps
        first = step * plan.global_batch + self.reader * own
        rows = corpus.rows(range(first, first + own))
        return StepBatch(
            micro_batches=[
                MicroBatch(
                    inputs=inputs_of(
                        rows[position * plan.micro_batch : (position + 1) * plan.micro_batch], self.device
                    ),
                    # A seed per micro-batch, not per rank: dropout is the same however the batch is shared.
                    seed=mixed(self.seed, plan.number(step, self.reader, position)),
                    weight=1 / plan.accumulation_steps,
                )
                for position in range(plan.accumulation_steps)
            ],
            rows=plan.global_batch,
            tokens=plan.global_batch * (rows.shape[1] - 1),
            cursor={"corpus": corpus.identity, "rows": (step + 1) * plan.global_batch},
        )

    def held_out(self, corpus: Corpus | None, config: GptNeoxConfig) -> HeldOut | None:
        """Return held-out rows in batches, each with one micro-batch for every reader."""
        if corpus is None or config.evaluate_every is None:
            return None
        together = self.plan.micro_batch * self.plan.readers
        size = max(config.held_out_rows, together) if corpus.size is None else corpus.size
        if size < together:
            raise Refusal(
                f"{corpus.name} has {size} rows, and all ranks together measure on {together} at once",
                hint="give more text, or set a smaller micro_batch",
            )
        turns = max(1, min(config.held_out_rows, size) // together)

        @contextmanager
        def open_batches() -> Iterator[Iterator[Inputs]]:
            firsts = (at * together + self.reader * self.plan.micro_batch for at in range(turns))
            yield (
                inputs_of(corpus.rows(range(first, first + self.plan.micro_batch)), self.device)
                for first in firsts
            )

        return HeldOut(
            every=config.evaluate_every, rows=turns * together, open=open_batches, perplexity_of="loss"
        )


def inputs_of(rows: TokenRows, device: Device) -> Inputs:
    """Return the model's words, and the labels, which are the next words."""
    tokens = torch.from_numpy(np.ascontiguousarray(rows)).to(device.place)
    return {"words": tokens[:, :-1], "labels": tokens[:, 1:].contiguous()}


def open_corpus(contract: LaunchContract, config: GptNeoxConfig, data: str, vocabulary: int) -> Corpus:
    """Open tokens below the data folder, or draw them."""
    if data == RANDOM:
        source = RandomTokens(config.length, config.seed, vocabulary)
        return Corpus("random tokens", source, f"random {config.length}", vocabulary)
    prefix = below_data(contract, data)
    index = TokenIndex.open(prefix)
    samples = Samples(index, config.length, config.seed)
    identity = f"{index.identity} {config.length}"
    return Corpus(str(prefix), samples, identity, vocabulary, samples.per_epoch)


def check_tokens(prefix: Path, model: ModelFolder, say: Say) -> None:
    """Refuse tokens of another vocabulary than the model's; print a note if that cannot be checked."""
    carried = model.carried()
    is_there = any(set(names) <= carried.keys() for names in [(name,) for name in JSONS] + [*PAIRS])
    if not (prefix.parent / VOCABULARY).is_file() or not is_there:
        lacking = prefix.parent if is_there else model.place
        say(f"{lacking} has no vocabulary: whether the tokens are those of the model is not checked")
        return
    theirs = find_bpe_vocabulary(model.place, list(carried), lambda name: carried[name])
    ours = read_bpe_vocabulary(prefix.parent / VOCABULARY)
    if _meaning(ours) != _meaning(theirs):
        raise Refusal(
            f"{prefix} has the tokens of another vocabulary (sha256 {ours.digest[:12]}) than {theirs.name} "
            f"({theirs.digest[:12]}): the same numbers mean other words",
            hint="prepare the tokens with the model's own vocabulary",
        )


def _meaning(vocabulary: BpeVocabulary) -> tuple[object, ...]:
    """Return the ids of all tokens, to compare: the same vocabulary can be written as different files."""
    found = json.loads(vocabulary.json)
    return found["model"]["vocab"], dict(vocabulary.added)
