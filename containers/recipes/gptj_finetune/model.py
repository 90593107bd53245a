"""The parts that tuning a GPT-J gives to the shared session: data, model, schedule, and its end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that everybody gives it

from slipway.containers.data.megatron.engines import (
    BpeVocabulary,
    find_bpe_vocabulary,
    parse_bpe_vocabulary,
)
from slipway.containers.data.samples.texts import sample_vocabulary
from slipway.containers.data.sources.sources import read_whole
from slipway.containers.models.adapters import (
    ADAPTED,
    AdaptedDecoder,
    adapters_of,
    is_adapter,
    merged,
    peft_names,
)
from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import Decoder, DecoderShape, training_flops_per_token
from slipway.containers.models.folder import ModelPlan, described, json_bytes, write_model
from slipway.containers.models.published import (
    ModelFolder,
    PublishedDecoder,
    PublishedWeights,
    open_model,
    refuse_missing,
)
from slipway.containers.models.shapes import PackedRows
from slipway.containers.recipes.gptj_finetune.config import KNOWN_SIZES, GptjConfig
from slipway.containers.recipes.gptj_finetune.data import (
    BatchOrder,
    Tokeniser,
    TuningBatches,
    TuningData,
    open_data,
    row_layout,
)
from slipway.containers.recipes.gptj_finetune.evaluate import HeldOutScores, profile, seconds
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.boxes import Box
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.checkpoint.tensor_file import encode_tensor, write_tensors
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.config import refuse_sharing_with_dropout
from slipway.containers.training.engines.native.assembly import local_of
from slipway.containers.training.engines.native.engine import initial_weights
from slipway.containers.training.layout import BatchPlan, Costs, Layout, at_most, balanced, share_batch
from slipway.containers.training.report import write_scores
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained, address_of_input, newest_saved
from slipway.containers.training.state import WEIGHTS, SavedState
from slipway.containers.training.task import Inputs
from slipway.containers.training.trial import LENGTH, ROWS, LayoutTrial, drawn, small_shape


def prepare(config: GptjConfig, place: Workplace) -> RecipeParts:
    plan = share_batch(config.global_batch, config.micro_batch, place.layout.readers)
    origin = open_origin(config, place.contract)
    model = build_model(config, origin)
    data = open_data(config, place.contract, Tokeniser(origin.vocabulary))
    batches = open_batches(config, data, plan)
    own = TuningBatches(
        rows=data.train,
        batches=batches,
        layout=row_layout(config),
        reader=place.reader,
        seed=config.seed,
        device=place.device,
    )
    schedule = build_schedule(config, batches)
    ending = TuningEnd(
        config=config, origin=origin, batches=batches, scoring=_scoring(config, place, data), place=place
    )
    return RecipeParts(
        title=f"GPT-J {origin.place} on {config.task}: {len(data.train):,} rows",
        task=CausalTask(),
        model=model,
        plan=plan,
        schedule=schedule,
        identity={
            **config.identity(),
            **origin.shape.identity,
            "steps": schedule.steps,
            "rows_sha256": data.train.identity,
            "model_sha256": origin.fingerprint(),
        },
        open_batches=lambda beginning: nullcontext(own.after(beginning.step)),
        betas=(config.beta1, config.beta2),
        epsilon=config.epsilon,
        flops_per_token=training_flops_per_token(
            origin.shape, float(data.train.lengths.mean()), is_frozen=config.lora_rank > 0
        ),
        trial=lambda: small_trial(config, origin.shape, place.layout),
        agree=partial(deal_layers, config, model, place),
        after=ending.after,
        finish=ending.finish,
    )


def open_batches(config: GptjConfig, data: TuningData, plan: BatchPlan) -> BatchOrder:
    batches = BatchOrder(
        lengths=data.train.lengths,
        plan=plan,
        seed=config.seed,
        is_even=config.pipeline > 1 and config.rows == "packed",
    )
    if not batches.per_epoch:
        raise Refusal(
            f"the data has {len(data.train)} rows, and a batch {plan.global_batch}",
            hint=f"set global_batch to at most {len(data.train)}, or give more data",
        )
    return batches


def build_schedule(config: GptjConfig, batches: BatchOrder) -> Schedule:
    whole = config.epochs * batches.per_epoch
    return Schedule(
        peak=config.rate,
        least=config.least_rate,
        steps=at_most(whole, config.steps),
        warmup_share=config.warmup,
        decay=config.schedule,
        decay_power=1.0,
    )


def deal_layers(config: GptjConfig, model: Decoder, place: Workplace, collective: Collective) -> None:
    """Deal the layers to the stages of a pipeline, by their times on the first rank."""
    if config.pipeline == 1 or config.partition == "even":
        return
    told: Json = None
    if collective.rank == 0:
        device = place.device
        costs = profile(
            model.shape,
            device,
            (config.micro_batch, config.length),
            recomputes=config.checkpoint_activations != "none",
            measure=seconds(device),
        )
        told = [costs.first, costs.last, *costs.layers]
    found = collective.gather(told)[0]
    assert isinstance(found, list), "the first rank sent its costs"
    first, last, *layers = map(float, found)  # type: ignore[arg-type]  # numbers, as sent
    counts = balanced(Costs(first=first, layers=layers, last=last), config.stages)
    model.stage_layers = counts
    place.words.say(f"stages have {', '.join(map(str, counts))} layers, by what they take here")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningEnd:
    """Measure the model at the end of epochs, and write it at the end."""

    config: GptjConfig
    origin: StartingModel
    batches: BatchOrder
    scoring: HeldOutScores
    place: Workplace

    def after(self, trained: Trained, steps: int) -> None:
        """Measure where an epoch ends, but for the last, which `finish` does."""
        epochs, rest = divmod(steps, self.batches.per_epoch)
        if self.config.evaluate == "epoch" and not rest and steps < trained.steps:
            self.scoring.run(trained.engine, f"epoch {epochs}")

    def finish(self, trained: Trained) -> None:
        scores, contract = self.scoring.run(trained.engine, f"step {trained.steps}"), trained.contract
        if contract.rank:
            return
        if contract.logs and scores:
            write_scores(Path(contract.logs), self.config.task, scores)
        if trained.checkpoints is not None:
            for line in export(trained.checkpoints.storage, self.config, self.origin, contract.archive):
                self.place.words.say(line)


def _scoring(config: GptjConfig, place: Workplace, data: TuningData) -> HeldOutScores:
    return HeldOutScores(
        data=data,
        rows=row_layout(config),
        micro_batch=config.micro_batch,
        layout=place.layout,
        rank=place.contract.rank,
        device=place.device,
        beat=place.telemetry.beat,
        say=place.words.show,
    )


def small_trial(config: GptjConfig, shape: DecoderShape, layout: Layout) -> LayoutTrial:
    """Return a small GPT-J on rows as they lie here, with adapters where they are trained."""
    small = small_shape(shape, layout, config.stages_per_rank)

    def inputs(number: int) -> Inputs:
        words = drawn(number, small.vocabulary, ROWS, LENGTH + 1)
        is_packed = config.rows == "packed"
        return {
            "words": words[:, :-1].reshape(1, -1) if is_packed else words[:, :-1],
            "scored": torch.arange(ROWS * LENGTH),
            "labels": words[:, 1:].flatten(),
            "lengths": torch.tensor([LENGTH] * ROWS) if is_packed else None,
        }

    return LayoutTrial(build=lambda: _unfilled(config, small, None), task=CausalTask(), inputs=inputs)


# The model at the start of tuning, and its vocabulary: a published folder, or the tiny one with new weights.
CLASS = "GPTJForCausalLM"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingModel:
    """Hold the model that a training begins with: its shape, vocabulary and files."""

    place: str
    shape: DecoderShape
    vocabulary: BpeVocabulary
    config: Mapping[str, object]  # config.json of what is left in the end
    carried: Mapping[str, bytes]  # the tokenizer's files
    folder: ModelFolder | None  # None: weights are drawn

    def fingerprint(self) -> str:
        return "drawn" if self.folder is None else self.folder.weights().fingerprint()


def open_origin(config: GptjConfig, contract: LaunchContract) -> StartingModel:
    origin = _drawn(config) if config.model is None else _published(config.model, contract)
    shape = origin.shape
    if config.length > shape.positions:
        raise Refusal(
            f"length={config.length} is more than the {shape.positions} positions of {origin.place}",
            hint=f"set length to at most {shape.positions}",
        )
    refuse_sharing_with_dropout(config, shape.dropout, origin.place)
    if origin.vocabulary.size > shape.vocabulary:
        raise Refusal(
            f"{origin.vocabulary.name} has {origin.vocabulary.size} tokens, and {origin.place} knows "
            f"{shape.vocabulary}",
            hint="give the vocabulary that belongs to the model",
        )
    return origin


def _drawn(config: GptjConfig) -> StartingModel:
    known, content = KNOWN_SIZES[config.size], sample_vocabulary()
    shape = DecoderShape(family="gptj", intermediate=4 * known.hidden, has_head_bias=True, **asdict(known))
    return StartingModel(
        place=f"size={config.size}",
        shape=shape,
        vocabulary=parse_bpe_vocabulary("the tiny model's vocabulary", content),
        config=config_of(shape, CLASS),
        carried={"tokenizer.json": content},
        folder=None,
    )


def _published(given: str, contract: LaunchContract) -> StartingModel:
    folder = open_model(address_of_input(contract, given), bucket_owner=contract.account)
    shape = folder.shape
    if not isinstance(shape, DecoderShape) or shape.family != "gptj":
        raise Refusal(f"{folder.place} is a {shape.family}, and this recipe tunes gptj", hint="give a GPT-J")
    names = [file.name for file in folder.source.files]
    return StartingModel(
        place=folder.place,
        shape=shape,
        vocabulary=find_bpe_vocabulary(folder.place, names, lambda name: read_whole(folder.source, name)),
        config={**folder.config, "architectures": [CLASS], "torch_dtype": "float32"},
        carried=folder.carried(),
        folder=folder,
    )


def build_model(config: GptjConfig, origin: StartingModel) -> Decoder:
    """Build the model on the meta device: each rank fills its own shares of it."""
    return _unfilled(config, origin.shape, None if origin.folder is None else origin.folder.weights())


def _unfilled(config: GptjConfig, shape: DecoderShape, published: PublishedWeights | None) -> Decoder:
    with torch.device("meta"):
        whole = Decoder(shape)
        if published is not None:
            refuse_missing(whole, published)
        if config.lora_rank:
            return AdaptedDecoder(
                shape,
                rank=config.lora_rank,
                alpha=config.lora_alpha,
                seed=config.seed,
                published=published,
            )
        if published is None:
            return whole
        model = PublishedDecoder(shape)
    model.published = published
    return model


# The loss of tuning, on the next tokens that count, and how often the right label's words are likelier.


class CausalTask:
    """Measure the loss of the scored tokens, and of pairs of rows how often the wanted one is likelier."""

    metrics = ("loss", "accuracy")

    def forward(self, model: nn.Module, inputs: Inputs) -> Tensor:
        return self.metrics_of(self.run_stage(model, None, inputs), inputs)

    def run_stage(self, stage: nn.Module, hidden: Tensor | None, inputs: Inputs) -> Tensor:
        """Run the model, or one stage of a pipeline, from words or the hidden state before it."""
        lengths, scored = inputs.get("lengths"), inputs["scored"]
        assert scored is not None, "every row has a token that counts"
        # On the meta device only shapes count, which are as of one row.
        rows = None if lengths is None or lengths.is_meta else PackedRows.of(lengths, scored.device)
        outputs: Tensor = stage(inputs["words"] if hidden is None else hidden, rows, scored)
        return outputs

    def metrics_of(self, outputs: Tensor, inputs: Inputs) -> Tensor:
        """Return the metrics from what the model, or its last stage, returned; training has no pairs."""
        labels, owners, wanted = inputs["labels"], inputs.get("owners"), inputs.get("wanted")
        assert labels is not None, "every row has a token that counts"
        scores = outputs.float()
        if owners is None or wanted is None:
            loss = F.cross_entropy(scores, labels)
            return torch.stack([loss, torch.zeros_like(loss)])
        losses = local_of(F.cross_entropy(scores, labels, reduction="none"))
        likelihoods = torch.zeros(2 * len(wanted), device=losses.device).index_add(0, owners, -losses)
        pairs = likelihoods.view(-1, 2)
        of_wanted = pairs.gather(1, wanted[:, None])[:, 0]
        of_other = pairs.gather(1, 1 - wanted[:, None])[:, 0]
        # A tie is no answer.
        return torch.stack([-of_wanted.mean(), (of_wanted > of_other).float().mean()])


# Write the tuned model as a folder for transformers, and LoRA's adapters as a folder for peft.
ADAPTER = "adapter"


def export(storage: Storage, config: GptjConfig, origin: StartingModel, archive: str | None) -> Iterator[str]:
    """Write the model of the newest checkpoint beside it, by tensors, and to the folder that the platform
    keeps; yield a line for each folder."""
    model = build_model(config, origin)
    saved = newest_saved(storage, model)
    with torch.device("meta"):
        sizes = {name: tuple(each.shape) for name, each in Decoder(origin.shape).named_parameters()}
    tuned = TunedWeights(saved, model, config)
    with storage.beside() as beside:
        files = described(origin.config, origin.carried)
        folder = write_model(beside, ModelPlan(shape=origin.shape, sizes=sizes), tuned.read, files)
        yield f"the model is in {storage}/{folder.name}"
        if archive is not None:
            shutil.copytree(folder, archive, dirs_exist_ok=True)
            yield f"the model is in {archive}, which the platform keeps"
        if config.lora_rank:
            write_adapter(beside / ADAPTER, tuned.adapters(), config, origin)
            yield f"what was trained of it alone is in {storage}/{ADAPTER}"


class TunedWeights:
    """Read a tuned model's parameters, one at a time: as they were saved, or what adapters make of others."""

    def __init__(self, saved: SavedState, model: Decoder, config: GptjConfig) -> None:
        self._saved, self._model, self._config = saved, model, config
        self._sizes = {name: parameter.shape for name, parameter in model.named_parameters()}
        self._initial = initial_weights(model, config.seed)

    def read(self, name: str) -> Tensor:
        if not self._config.lora_rank:
            return self._saved.read(WEIGHTS, name)
        size = self._sizes[name]
        whole = self._initial(name, size)(Box.whole(size))
        pairs = {
            which: (self._saved.read(WEIGHTS, down), self._saved.read(WEIGHTS, up))
            for which, (down, up) in adapters_of(name).items()
        }
        scale = self._config.lora_alpha / self._config.lora_rank
        return merged(whole, self._model.shape, scale, pairs) if pairs else whole

    def adapters(self) -> dict[str, Tensor]:
        return {name: self._saved.read(WEIGHTS, name) for name in self._sizes if is_adapter(name)}


def write_adapter(
    folder: Path, adapters: Mapping[str, Tensor], config: GptjConfig, origin: StartingModel
) -> None:
    """Write adapters as peft loads and merges them."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        theirs: encode_tensor(theirs, tensor.to(torch.float32))
        for name, tensor in adapters.items()
        for theirs in peft_names(name)
    }
    write_tensors(folder / "adapter_model.safetensors", tensors)
    settings: Mapping[str, object] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": origin.place,
        "r": config.lora_rank,
        "lora_alpha": config.lora_alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": [module for module, _ in ADAPTED.values()],
    }
    disk.replace_file(folder / "adapter_config.json", json_bytes(settings), token=f"{os.getpid()}.new")
