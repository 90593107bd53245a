"""A run and its estimate say the same: steps, batch and the memory that a step holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.jobs.estimate.estimates import estimate
from slipway.jobs.estimate.evidence.measurements import our_measurements
from slipway.jobs.estimate.hardware import cluster_of
from slipway.jobs.estimate.inputs.places import alone as alone_on
from slipway.jobs.estimate.inputs.workloads import held_by, recipe_workload
from slipway.jobs.estimate.prices import ON_DEMAND, known_rates
from slipway.jobs.estimate.work.models import MODELS
from slipway.jobs.estimate.work.shapes import Layout
from slipway.jobs.estimate.work.work import memory
from slipway.jobs.words.catalogue.instances import instance_type
from tests.containers.training.ranks import Ranks

pytestmark = pytest.mark.slow

VOCABULARY, PREDICTIONS = 30_522, 20


@pytest.mark.parametrize("batch", [{"global_batch": "32"}, {"accumulation_steps": "3"}])
def test_a_run_takes_the_steps_and_the_batch_that_its_estimate_says(
    ranks: Ranks, batch: dict[str, str]
) -> None:
    """Train on two ranks with a number of sequences that fills no whole number of steps."""
    settings = {"precision": "fp32", "zero": "0", "micro_batch": "4", "sequences": "100", **batch}
    ran = ranks.finish(f"estimated-{'-'.join(batch)}", world=2, settings=settings)
    assert ran.codes == (0, 0), ran.errors
    place = alone_on(instance_type("c6i.16xlarge"), known_rates(), region=None, term=ON_DEMAND)
    told = estimate(recipe_workload("bert_pretrain", settings), place, 2, our_measurements())
    assert told.steps == max(ran.losses())
    assert told.sequences_per_step * (told.steps - 1) < 100 <= told.sequences_per_step * told.steps


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("size", "rows"), [("tiny", 16), pytest.param("base", 4, marks=pytest.mark.long)])
def test_the_memory_that_is_estimated_is_near_what_torch_holds(size: str, rows: int, precision: str) -> None:
    """On a processor in bf16, attention computes in 32 bit, which the estimate does not count."""
    states, kept = held(size, rows, precision)
    cluster = cluster_of(instance_type("c6i.16xlarge"), 1)
    told = memory(MODELS[f"bert-{size}"], cluster, Layout(micro_batch=rows, **held_by("plain", precision)))
    assert told.weights + told.gradients + told.optimizer == pytest.approx(states, rel=0.01)
    assert told.activations == pytest.approx(kept, rel=0.15 if precision == "fp32" else 0.35)
    assert told.total == pytest.approx(states + kept, rel=0.08)


def held(size: str, rows: int, precision: str) -> tuple[int, int]:
    """Return the bytes of weights, gradients and optimizer after a step, and of what its backward needed."""
    torch = pytest.importorskip("torch")

    from slipway.containers.models.shapes import BERT_SIZES
    from slipway.containers.training.engines.gradients import DataParallel
    from slipway.containers.training.task import MicroBatch
    from tests.containers.training.tiny_bert import tiny_parts

    settings = {"engine": "plain", "optimizer": "adamw", "learning_rate": "1e-4", "micro_batch": str(rows)}
    parts, model = tiny_parts(BERT_SIZES[size], settings)
    device = replace(parts.device, precision={"fp32": torch.float32, "bf16": torch.bfloat16}[precision])
    engine = DataParallel(replace(parts, device=device))
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: object) -> object:
        storage = tensor.untyped_storage()  # type: ignore[attr-defined]  # torch is imported here alone
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        engine.accumulate([MicroBatch(inputs=some_rows(torch, rows), seed=1, weight=1.0)])
    engine.step(1e-4)
    in_32_bit = sum(piece.data.nbytes for piece in engine.pieces())  # weights and two moments
    own = sum(parameter.nbytes for parameter in model.parameters()) if precision == "bf16" else 0
    gradients = sum(view.nbytes for view in engine._gradients.views.values())
    return in_32_bit + own + gradients, sum(kept.values())


def some_rows(torch: object, rows: int) -> dict[str, object]:
    def drawn(*size: int, below: int) -> object:
        return torch.randint(0, below, size)  # type: ignore[attr-defined]  # likewise

    length = MODELS["bert-tiny"].sequence_length
    return {
        "words": drawn(rows, length, below=VOCABULARY),
        "segments": drawn(rows, length, below=2),
        "mask": None,
        "positions": drawn(rows, PREDICTIONS, below=length),
        "labels": drawn(rows, PREDICTIONS, below=VOCABULARY),
        "follows": drawn(rows, below=2),
    }
