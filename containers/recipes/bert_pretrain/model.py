"""The parts that BERT pre-training gives to the shared session: data, model, schedule, and its end."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from slipway.containers.data.rows.dataset import Dataset
from slipway.containers.data.rows.prepare import VOCABULARY
from slipway.containers.data.tokens.engine import read_vocabulary
from slipway.containers.models.configs import config_of
from slipway.containers.models.encoder import BertForPreTraining, Losses
from slipway.containers.models.folder import (
    MOST_UNUSED_ENTRIES,
    ModelVocabulary,
    described,
    read_model_vocabulary,
)
from slipway.containers.models.names import Shape
from slipway.containers.models.published import load_weights, open_model, read_shape
from slipway.containers.models.shapes import BERT_SIZES, EncoderShape
from slipway.containers.recipes.bert_pretrain.config import PEAKS, BertConfig, plan_batch
from slipway.containers.recipes.bert_pretrain.data import BertBatches, open_data
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.layout import BatchPlan, Layout
from slipway.containers.training.report import Say
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained, below_data, export_model
from slipway.containers.training.task import Inputs
from slipway.containers.training.trial import LENGTH, ROWS, LayoutTrial, drawn, small_shape


def prepare(config: BertConfig, place: Workplace) -> RecipeParts:
    plan = plan_batch(config, place.layout.readers)
    data = open_data(place.contract, config)
    dataset = data.training
    schedule = build_schedule(config, plan)
    model = build_model(config, place.contract, dataset, place.words.say)
    batches = BertBatches(plan=plan, reader=place.reader, seed=config.seed, device=place.device)

    def finish(trained: Trained) -> None:
        if place.contract.rank == 0 and trained.checkpoints is not None:
            place.words.say(export(trained.checkpoints.storage, model.shape, dataset))

    return RecipeParts(
        title=f"BERT {config.size}: {dataset.rows} rows of {dataset.manifest.plan.row_tokens} tokens",
        task=BertTask(),
        model=model,
        plan=plan,
        schedule=schedule,
        identity={
            **config.identity(),
            "steps": schedule.steps,
            "global_batch": plan.global_batch,
            **model.shape.identity,
            **({"held_out_share": config.held_out_share} if config.held_out_share else {}),
        },
        open_batches=lambda beginning: batches.open(dataset, beginning),
        start_from=config.start_from,
        flops_per_token=training_flops_per_token(model.shape, dataset.manifest.plan.row_tokens),
        held_out=data.held_out_batches(batches, config),
        trial=lambda: small_trial(config, model.shape, place.layout),
        finish=finish,
    )


def small_trial(config: BertConfig, shape: EncoderShape, layout: Layout) -> LayoutTrial:
    """Return a small BERT, and rows of which the second is padded."""
    small = small_shape(shape, layout, config.stages_per_rank)

    def build() -> BertForPreTraining:
        torch.manual_seed(config.seed)
        return BertForPreTraining(small)

    def inputs(number: int) -> Inputs:
        words = drawn(number, small.vocabulary, ROWS, LENGTH)
        return {
            "words": words,
            "segments": words % 2,
            "mask": (torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 3]])).long(),
            "positions": torch.tensor([[1, 3], [2, 0]]),
            "labels": words[:, :2] * torch.tensor([[1, 1], [1, 0]]),
            "follows": words[:, 0] % 2,
        }

    return LayoutTrial(build=build, task=BertTask(), inputs=inputs)


def build_schedule(config: BertConfig, plan: BatchPlan) -> Schedule:
    published_peak = PEAKS[config.size, config.phase].at(plan.global_batch)
    return Schedule(
        peak=published_peak if config.learning_rate is None else config.learning_rate,
        steps=config.steps_of(plan.global_batch),
        warmup_share=config.warmup_share,
        constant_share=config.constant_share,
        decay=config.schedule,
        decay_power=config.decay_power,
    )


# The model at the start of pre-training: a published size, any config.json, or published weights.
VOCABULARY_MULTIPLE = 8  # that matrix units like, as the references pad; the export cuts the padding off
_HEADS = ("pooler", "next_sentence", "words")  # may be fresh: the bare model is published without


def build_model(
    config: BertConfig, contract: LaunchContract, dataset: Dataset, say: Say
) -> BertForPreTraining:
    """Build the same weights on every rank: published ones, or drawn from the seed alone."""
    torch.manual_seed(config.seed)
    if config.start_from_model is None:
        return BertForPreTraining(model_shape(config, contract, dataset))
    folder = open_model(str(below_data(contract, config.start_from_model)))
    # Of another vocabulary, the ids in the data mean other words.
    if read_model_vocabulary(folder).vocabulary.digest != dataset.manifest.plan.vocabulary_sha256:
        raise Refusal(
            f"{dataset.folder} was prepared with another vocabulary than {folder.place} has",
            hint="prepare the data again with --vocabulary set to the model's vocab.txt",
        )
    model = BertForPreTraining(_suited(config, folder.shape, folder.place, dataset))
    if fresh := load_weights(model, folder.weights(), _HEADS):
        say(f"{' and '.join(fresh)} of the model start(s) random: {folder.place} has none that fit")
    return model


def model_shape(config: BertConfig, contract: LaunchContract, dataset: Dataset) -> EncoderShape:
    """Return the shape of a size, with the data's own vocabulary, or of a config.json as it is."""
    if config.config is None:
        entries = dataset.manifest.plan.vocabulary_entries
        return _with_settings(config, replace(BERT_SIZES[config.size], vocabulary=entries))
    return _suited(config, *read_shape(below_data(contract, config.config)), dataset)


def _suited(config: BertConfig, shape: Shape, place: str, dataset: Dataset) -> EncoderShape:
    """Refuse a shape that is not a BERT's or does not fit the data."""
    plan = dataset.manifest.plan
    if not isinstance(shape, EncoderShape) or shape.family != "bert":
        raise Refusal(f"{place} is a {shape.family}, and this recipe trains bert", hint="give a BERT")
    if not 0 <= shape.vocabulary - plan.vocabulary_entries < MOST_UNUSED_ENTRIES:
        raise Refusal(
            f"{place} knows {shape.vocabulary} words, and {dataset.folder} has a vocabulary of "
            f"{plan.vocabulary_entries}",
            hint="prepare the data with the model's own vocabulary, or set vocab_size",
        )
    if shape.positions < plan.row_tokens or shape.segments < 2:
        raise Refusal(
            f"{place} has {shape.positions} positions and {shape.segments} segments, and rows have "
            f"{plan.row_tokens} tokens in 2 segments",
            hint="give a model with at least as many, or train phase 1",
        )
    return _with_settings(config, shape)


def _with_settings(config: BertConfig, shape: EncoderShape) -> EncoderShape:
    rows = -(-shape.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    shape = replace(shape, vocabulary_rows=rows)
    if config.dropout is None:
        return shape
    return replace(shape, dropout=config.dropout, attention_dropout=config.dropout)


# The losses of BERT pre-training: masked words and next sentences (Devlin et al. 2018).


class BertTask:
    metrics = ("loss", "masked_words", "next_sentence")

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(model(**inputs), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor | Losses:
        """Run one stage of a pipeline, from words or the hidden state before it."""
        outputs: Tensor | Losses = stage(hidden, inputs)
        return outputs

    def metrics_of(self, outputs: Losses, inputs: Inputs) -> Tensor:
        """Return the metrics from the output of the model, or of its last stage."""
        return torch.stack((outputs.total, outputs.masked_words, outputs.next_sentence))


# The trained model as a folder that transformers and glue_finetune load, from its last checkpoint.
CLASS = "BertForPreTraining"


def export(storage: Storage, shape: EncoderShape, dataset: Dataset) -> str:
    """Write the model of the newest checkpoint beside it; return a line that says where, or why not."""
    vocabulary = dataset.folder / VOCABULARY
    if not vocabulary.exists():
        return f"no model folder is written: {vocabulary} is missing; prepare the data again to have it"
    words = ModelVocabulary(vocabulary=read_vocabulary(vocabulary), is_cased=dataset.manifest.plan.cased)
    return export_model(storage, BertForPreTraining, shape, described(config_of(shape, CLASS), words.files()))


# Model FLOPs utilization (MFU).
# The best public figure for BERT-Large at 128 tokens in bf16, on an A100: what ours is printed next to.
PUBLISHED_MFU = 0.44


def training_flops_per_token(shape: EncoderShape, row_tokens: int) -> float:
    """Return 3 × the FLOPs of forward: 8LH² + 4LHI + 4LSH for the encoder, 2HV + 2H² for the word head.

    The head is counted for every token, as in published figures, although ours computes it at masked words.
    """
    per_layer = 8 * shape.hidden + 4 * shape.intermediate + 4 * row_tokens
    encoder = shape.layers * shape.hidden * per_layer
    head = 2 * shape.hidden * shape.vocabulary + 2 * shape.hidden**2
    return 3.0 * (encoder + head)
