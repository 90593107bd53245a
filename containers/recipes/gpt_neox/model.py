"""The parts that GPT-NeoX pre-training gives to the shared session: data, model, schedule, and its end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from slipway.containers.models.configs import config_of
from slipway.containers.models.decoder import Decoder, DecoderShape, training_flops_per_token
from slipway.containers.models.folder import described
from slipway.containers.models.names import Shape
from slipway.containers.models.published import (
    PublishedDecoder,
    open_model,
    read_shape,
    refuse_missing,
)
from slipway.containers.recipes.gpt_neox.config import RANDOM, GptNeoxConfig
from slipway.containers.recipes.gpt_neox.data import TokenBatches, check_tokens, open_corpus
from slipway.containers.runtime import disk
from slipway.containers.runtime.checkpoint.storage import Storage
from slipway.containers.runtime.contract.contract import LaunchContract
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.config import refuse_sharing_with_dropout
from slipway.containers.training.layout import share_batch
from slipway.containers.training.report import Say
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained, below_data, export_model
from slipway.containers.training.task import NextTokenTask
from slipway.containers.training.trial import decoder_trial, small_shape


def prepare(config: GptNeoxConfig, place: Workplace) -> RecipeParts:
    plan = share_batch(config.global_batch, config.micro_batch, place.layout.readers)
    model = build_model(config, place.contract, place.words.say)
    shape = model.shape
    settings = compile_settings(config, shape, place)
    if config.steps is None and config.compiled == "same":
        check_compiled(settings, place.words.say)
    corpus = open_corpus(place.contract, config, config.data, shape.vocabulary)
    held_out = None
    if config.held_out is not None:
        held_out = open_corpus(place.contract, config, config.held_out, shape.vocabulary)
    batches = TokenBatches(plan=plan, reader=place.reader, seed=config.seed, device=place.device)
    schedule = build_schedule(config)

    def finish(trained: Trained) -> None:
        if place.contract.rank == 0:
            if config.steps is not None:
                place.words.say(write_compiled(settings))
            elif trained.checkpoints is not None:
                place.words.say(export(trained.checkpoints.storage, shape))

    return RecipeParts(
        title=_title(config, corpus.name),
        task=NextTokenTask(),
        model=model,
        plan=plan,
        schedule=schedule,
        identity={**config.identity(), "steps": schedule.steps, **shape.identity},
        open_batches=lambda beginning: batches.open(corpus, beginning),
        betas=(config.beta1, config.beta2),
        epsilon=config.epsilon,
        start_from=config.start_from,
        flops_per_token=training_flops_per_token(shape, config.length),
        held_out=batches.held_out(held_out, config),
        trial=lambda: decoder_trial(small_shape(shape, place.layout, config.stages_per_rank)),
        finish=finish,
    )


def build_schedule(config: GptNeoxConfig) -> Schedule:
    return Schedule(
        peak=config.rate,
        least=config.least_rate,
        steps=config.all_steps if config.steps is None else config.steps,
        warmup_share=config.warmup,
        decay=config.schedule,
        decay_power=1.0,
    )


def _title(config: GptNeoxConfig, corpus: str) -> str:
    if config.steps is not None:
        return f"GPT-NeoX {config.size}: compiles {config.steps} step(s), and keeps nothing of them"
    return f"GPT-NeoX {config.size}: {config.tokens:,} tokens in {config.all_steps:,} steps, from {corpus}"


# The model at the start of training: a published size, any config.json, or published weights.
# It is built without memory: each rank then fills its own shares, one parameter at a time.


def _neox(layers: int, hidden: int, heads: int, **more: object) -> DecoderShape:
    return DecoderShape(
        family="neox",
        layers=layers,
        hidden=hidden,
        heads=heads,
        intermediate=4 * hidden,
        rotary_dimensions=hidden // heads // 4,
        has_attention_bias=True,
        **more,  # type: ignore[arg-type]  # fields of the shape
    )


# EleutherAI/gpt-neox-20b and EleutherAI/pythia-6.9b, as their config.json describe them. Their vocabularies
# are padded; GPT-2's 50,257 tokens fit, too. Weights begin as in the article's scripts, both of which have
# init_method_std=0.021, on megatron_neox_config.yaml, which has use_scaled_init_method: True.
_SCRIPTS: Mapping[str, Any] = {"initial_spread": 0.021, "scales_residuals": True}
SIZES: Mapping[str, DecoderShape] = {
    "neox-20b": _neox(44, 6144, 64, vocabulary=50432, gelu="tanh", **_SCRIPTS),
    "pythia-6.9b": _neox(32, 4096, 32, vocabulary=50432, gelu="none", **_SCRIPTS),
    "tiny": _neox(4, 64, 4, vocabulary=512, gelu="none", positions=256, initial_spread=0.1),
}


def build_model(config: GptNeoxConfig, contract: LaunchContract, say: Say) -> Decoder:
    """Build the model on the meta device; refuse tokens of another vocabulary."""
    if config.start_from_model is None:
        with torch.device("meta"):
            return Decoder(model_shape(config, contract))
    folder = open_model(str(below_data(contract, config.start_from_model)))
    shape = _suited(config, folder.shape, folder.place)
    for data in (config.data, config.held_out):
        if data not in (None, RANDOM):
            check_tokens(below_data(contract, data), folder, say)
    with torch.device("meta"):
        model = PublishedDecoder(shape)
    model.published = replace(folder, shape=shape).weights()
    refuse_missing(model, model.published)
    return model


def model_shape(config: GptNeoxConfig, contract: LaunchContract) -> DecoderShape:
    """Return the shape of a size, or of a config.json as it is."""
    if config.config is None:
        return _suited(config, SIZES[config.size], f"size={config.size}")
    return _suited(config, *read_shape(below_data(contract, config.config)))


def _suited(config: GptNeoxConfig, shape: Shape, place: str) -> DecoderShape:
    """Refuse a shape that is not a GPT-NeoX's, or that these settings cannot train."""
    if not isinstance(shape, DecoderShape) or shape.family != "neox":
        raise Refusal(f"{place} is a {shape.family}, and this recipe trains neox", hint="give a GPT-NeoX")
    if config.length > shape.positions:
        raise Refusal(
            f"length={config.length} is more than the {shape.positions} positions of {place}",
            hint=f"set length to at most {shape.positions}",
        )
    words = shape.vocabulary if config.vocabulary is None else config.vocabulary
    if config.start_from_model is not None and words != shape.vocabulary:
        raise Refusal(
            f"vocabulary={words}, and the weights in {place} are of {shape.vocabulary} tokens",
            hint="leave vocabulary out",
        )
    if words % config.tensor:
        padded = -(-words // config.tensor) * config.tensor
        raise Refusal(
            f"tensor={config.tensor} does not divide the vocabulary of {words}",
            hint=f"set vocabulary={padded}, which pads it, or another tensor",
        )
    refuse_sharing_with_dropout(config, shape.dropout, place)
    return replace(shape, vocabulary=words, rotates_whole_heads=config.rotary == "whole")


# The trained model as a folder that transformers loads, from its last checkpoint.
CLASS = "GPTNeoXForCausalLM"


def export(storage: Storage, shape: DecoderShape) -> str:
    """Write the model of the newest checkpoint beside it, a tensor at a time; return a line that says so."""
    return export_model(storage, Decoder, shape, described(config_of(shape, CLASS), {}))


# A compile job writes a record of its settings to the compile cache, and a run looks for a record of equal
# settings there: a run that differs would compile again, on nodes that are paid for.
# Neuron's own variables: the cache of compiled graphs, and the compiler's flags.
CACHE, FLAGS = "NEURON_COMPILE_CACHE_URL", "NEURON_CC_FLAGS"
FOLDER = "slipway-compiled"
_ENDING = ".json"
_OF_CONFIG = (
    *("length", "micro_batch", "global_batch", "rotary", "optimizer", "clip_norm"),
    *("tensor", "pipeline", "sharded", "pipeline_schedule", "stages_per_rank"),
    *("checkpoint_activations", "offload_activations"),
)

CompileSettings = Mapping[str, int | float | str | None]


def compile_settings(config: GptNeoxConfig, shape: DecoderShape, place: Workplace) -> CompileSettings:
    """Return the settings that decide a step's graphs, not the learning rate, seed or number of steps."""
    asked = asdict(config)
    return {
        **{name: asked[name] for name in _OF_CONFIG},
        "engine": config.engine_name,
        "ranks": place.contract.world,
        "device": place.device.kind,
        "precision": place.device.precision_name,
        **shape.identity,
        FLAGS: os.environ.get(FLAGS, ""),
    }


def write_compiled(settings: CompileSettings) -> str:
    """Write the record of a compile job; return a line that says where."""
    folder = _folder()
    if folder is None:
        return f"no record is left of what was compiled: {CACHE} names no folder"
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(settings, indent=1, sort_keys=True).encode()
    path = folder / f"{hashlib.sha256(content).hexdigest()[:16]}{_ENDING}"
    disk.replace_file(path, content, token=f"{os.getpid()}.new")
    return f"compiled for these settings: {path}"


def check_compiled(settings: CompileSettings, say: Callable[[str], None]) -> None:
    """Refuse a run if jobs have compiled into this cache, but none of them for these settings."""
    folder = _folder()
    if folder is None:
        return
    records = [found for path in sorted(folder.glob(f"*{_ENDING}")) if (found := _read(path)) is not None]
    if not records:
        say(f"no job has compiled into {folder.parent}: the first steps compile, where the device does")
        return
    differing = min((_differences(settings, record) for record in records), key=len)
    if differing:
        raise Refusal(
            f"what was compiled into {folder.parent} differs from this run: {'; '.join(differing)}",
            hint="compile with the run's settings, or set compiled=any to compile on the way",
        )


def _differences(settings: CompileSettings, record: CompileSettings) -> list[str]:
    return [
        f"{name} was {record.get(name)!r}, and is {settings.get(name)!r}"
        for name in sorted({*settings, *record})
        if settings.get(name) != record.get(name)
    ]


def _folder() -> Path | None:
    """Return the folder of the records; None for a cache in S3, where there are none."""
    place = os.environ.get(CACHE, "")
    return Path(place) / FOLDER if place and "://" not in place else None


def _read(path: Path) -> CompileSettings | None:
    """Return a record, or None if the file is not one."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
