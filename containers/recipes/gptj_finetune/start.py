"""What tuning a GPT-J brings to the session that all recipes share: data, model, schedule and its end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from slipway.containers.models.decoder import Decoder
from slipway.containers.models.flops import training_flops_per_token
from slipway.containers.recipes.gptj_finetune.batch import BatchOrder
from slipway.containers.recipes.gptj_finetune.config import GptjConfig
from slipway.containers.recipes.gptj_finetune.data import TuningBatches, TuningData, open_data, row_layout
from slipway.containers.recipes.gptj_finetune.evaluate import HeldOutScores, write_scores
from slipway.containers.recipes.gptj_finetune.export import export
from slipway.containers.recipes.gptj_finetune.model import StartingModel, build_model, open_origin
from slipway.containers.recipes.gptj_finetune.profile import profile, seconds
from slipway.containers.recipes.gptj_finetune.task import CausalTask
from slipway.containers.recipes.gptj_finetune.texts import Tokeniser, digest_of
from slipway.containers.runtime.collective import Collective, Json
from slipway.containers.runtime.errors import Refusal
from slipway.containers.training.batch import BatchPlan, share_batch
from slipway.containers.training.counting import at_most
from slipway.containers.training.partition import Costs, balanced
from slipway.containers.training.schedules import Schedule
from slipway.containers.training.session import RecipeParts, Workplace
from slipway.containers.training.start import Trained


def prepare(config: GptjConfig, place: Workplace) -> RecipeParts:
    plan = share_batch(config.global_batch, config.micro_batch, place.layout.readers)
    origin = open_origin(config, place.contract)
    model = build_model(config, origin)
    place.layout.check(
        heads=origin.shape.heads,
        layers=origin.shape.layers,
        micro_batches=plan.accumulation_steps,
        stages_per_rank=config.stages_per_rank,
    )
    data = open_data(config, place.contract, Tokeniser(origin.vocabulary))
    batches = open_batches(config, data, plan)
    dealt = TuningBatches(
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
        identity=_identity(config, schedule, origin, data),
        open_batches=lambda beginning: nullcontext(dealt.after(beginning.step)),
        betas=(config.beta1, config.beta2),
        epsilon=config.epsilon,
        flops_per_token=training_flops_per_token(origin.shape, config.length),
        agree=Cutting(config=config, model=model, place=place).agree,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """Deal the layers to the stages of a pipeline, by what they take on the first rank."""

    config: GptjConfig
    model: Decoder
    place: Workplace

    def agree(self, collective: Collective) -> None:
        config = self.config
        if config.pipeline == 1 or config.partition == "even":
            return
        told: Json = None
        if collective.rank == 0:
            costs = self._costs()
            told = [costs.first, costs.last, *costs.layers]
        found = collective.gather(told)[0]
        assert isinstance(found, list), "the first rank sent its costs"
        first, last, *layers = map(float, found)  # type: ignore[arg-type]  # numbers, as sent
        counts = balanced(Costs(first=first, layers=layers, last=last), config.stages)
        self.model.stage_layers = counts
        self.place.words.say(f"stages have {', '.join(map(str, counts))} layers, by what they take here")

    def _costs(self) -> Costs:
        device = self.place.device
        return profile(
            self.model.shape,
            device,
            (self.config.micro_batch, self.config.length),
            recomputes=self.config.checkpoint_activations != "none",
            measure=seconds(device),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningEnd:
    """Measure where epochs end, and leave the model."""

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


def _identity(
    config: GptjConfig, schedule: Schedule, origin: StartingModel, data: TuningData
) -> dict[str, Json]:
    model = {f"model_{name}": value for name, value in asdict(origin.shape).items()}
    return {
        **config.identity(),
        **model,
        "steps": schedule.steps,
        "rows_sha256": digest_of(data.train),
        "model_sha256": origin.fingerprint(),
    }
